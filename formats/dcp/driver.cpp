// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/driver.hpp"

#include "formats/dcp/accelerate_parts.hpp"
#include "formats/dcp/adam.hpp"
#include "formats/dcp/dcp.hpp"
#include "formats/dcp/held.hpp"
#include "formats/encodings/held/document.hpp"
#include "formats/encodings/torch/text.hpp"
#include "formats/recognize.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"

#include <array>

namespace tpx::formats {
namespace {

std::optional<RecognizedPath> recognize_held(const FileStart& file) {
    if (!file.bytes.starts_with(held::manifest_start)) return std::nullopt;
    return RecognizedPath{file.path, &dcp_driver, "training state that is held in memory"};
}

std::optional<RecognizedPath> recognize_dcp(const std::filesystem::path& folder) {
    if (path_exists(folder / ".metadata")) {
        // Reading it as DCP would lose the contents of common.pt: args, counters and optimizer settings.
        if (!path_exists(folder / "metadata.json") && path_exists(folder / "common.pt"))
            throw failure("{} is missing, though common.pt shows that this is a torch_dist checkpoint; restore it",
                          (folder / "metadata.json").string());
        return RecognizedPath{folder, &dcp_driver, "a DCP checkpoint"};
    }
    if (path_exists(folder / "__0.metadata"))
        return RecognizedPath{folder, nullptr, "a DCP checkpoint with a metadata file for each rank"};
    if (!accelerate_parts(folder).empty())
        return RecognizedPath{folder, &dcp_driver, "an FSDP checkpoint of accelerate in DCP folders"};
    if (is_held_by_hosts(folder))
        return RecognizedPath{folder, &dcp_driver, "training state that hosts hold in memory"};
    return std::nullopt;
}

Checkpoint open_any(const std::filesystem::path& path, MissingFiles missing) {
    if (!path_is_directory(path)) return open_held(path);
    return is_held_by_hosts(path) ? open_held_by_hosts(path) : open_dcp(path, missing);
}

constexpr std::array<std::string_view, 4> dcp_aliases{"titan", "torchtitan", "fsdp", "fsdp2"};

}  // namespace

constinit const Driver dcp_driver{
    .name = "dcp",
    .title =
        "PyTorch distributed checkpoint (DCP): FSDP2, tensor parallel or both; optimizer state keyed by parameter "
        "name or index",
    .framework = "PyTorch",
    .aliases = dcp_aliases,
    .written = WritableFrom::any,
    .knows_optimizer = true,
    .keeps_values = true,
    .is_resharded = true,
    .aligns_payloads = true,
    .splits_by_holders = true,
    .values = ValueStorage::objects,
    .dialect = "titan",
    .state_names = StateNames::by_torch,
    .has_module_names = true,
    .may_wrap_names = true,
    .precedence = 20,
    .recognize_file = recognize_held,
    .recognize_folder = recognize_dcp,
    .open = open_any,
    .count_writers = ranks_of_files,
    .reject_name = torch::reject_name,
    .draft = [](const Content& content,
                std::vector<std::string>&) { return content.held ? draft_held(content) : draft_dcp(content); },
    .adam = adam_of_objects,
};

}  // namespace tpx::formats
