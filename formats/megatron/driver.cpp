// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/driver.hpp"

#include "formats/encodings/torch/text.hpp"
#include "formats/megatron/dist_checkpointing.hpp"
#include "formats/megatron/legacy.hpp"
#include "formats/megatron/shared_traits.hpp"
#include "formats/megatron/torch_dist.hpp"
#include "formats/megatron/unpack_optimizer.hpp"
#include "formats/megatron/zarr.hpp"
#include "formats/megatron/zarr_names.hpp"
#include "formats/recognize.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

std::optional<RecognizedPath> recognize_torch_dist(const fs::path& folder) {
    const std::string backend = megatron::sharded_backend(folder);
    if (backend.empty()) return std::nullopt;
    if (backend == torch_dist_driver.name) return RecognizedPath{folder, &torch_dist_driver, "a torch_dist checkpoint"};
    return RecognizedPath{folder, nullptr, fmt::format("a Megatron-core checkpoint of backend '{}'", backend)};
}

std::optional<RecognizedPath> recognize_zarr(const fs::path& folder) {
    if (megatron::sharded_backend(folder) != zarr_driver.name) return std::nullopt;
    return RecognizedPath{folder, &zarr_driver, "a Megatron-core checkpoint of the former zarr backend"};
}

/// The checkpoint folder of a root: the iteration that the tracker file names, or `weights` of a NeMo 2 folder, whose
/// `context` describes the model. Empty if `root` is neither.
fs::path checkpoint_of_megatron_root(const fs::path& root) {
    constexpr const char* tracker = "latest_checkpointed_iteration.txt";
    if (!path_exists(root / tracker)) {
        const fs::path weights = root / "weights";
        const bool is_nemo = path_is_directory(root / "context") && path_exists(weights / "metadata.json");
        return is_nemo ? weights : fs::path{};
    }
    const std::string text = first_line(root / tracker);
    std::string name = text;
    if (text != "release") {
        std::uint32_t iteration = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), iteration);
        if (error != std::errc{} || end != text.data() + text.size())
            throw failure("{}: '{}' is neither a number nor 'release'", (root / tracker).string(), text);
        name = fmt::format("iter_{:07}", iteration);
    }
    if (!path_exists(root / name)) throw failure("{}: names {}, which is missing", (root / tracker).string(), name);
    return root / name;
}

std::optional<RecognizedPath> recognize_rank_files(const fs::path& folder) {
    const std::vector<std::string> names = list_directory(folder);
    const auto is_of_rank = [&](const std::string& name) {
        const fs::path entry = folder / name;
        return name.starts_with("mp_rank_") &&
               (path_exists(entry / "model_optim_rng.pt") || path_exists(entry / "model_rng.pt"));
    };
    if (std::ranges::none_of(names, is_of_rank)) return std::nullopt;
    return RecognizedPath{folder, &megatron_driver, "a Megatron legacy checkpoint"};
}

constexpr std::array<std::string_view, 2> torch_dist_aliases{"mcore", "megatron-core"};

}  // namespace

constinit const Driver torch_dist_driver = megatron::with_shared_traits({
    .name = "torch_dist",
    .title = "Megatron-core `torch_dist`, every optimizer sharding type",
    .aliases = torch_dist_aliases,
    .aligns_payloads = true,
    .splits_by_holders = true,
    .values = ValueStorage::common_and_objects,
    .precedence = 10,
    .recognize_folder = recognize_torch_dist,
    .open = open_torch_dist,
    .complete = unpack_optimizer,
    .reject_name = torch::reject_name,
    .draft = [](const Content& content, std::vector<std::string>&) { return draft_torch_dist(content); },
});

constinit const Driver zarr_driver = megatron::with_shared_traits({
    .name = "zarr",
    .title = "Megatron-core's former `zarr` backend (0.15 and earlier)",
    .values = ValueStorage::common_and_objects,
    .precedence = 9,  // before torch_dist, which reports all other backends as not readable
    .recognize_folder = recognize_zarr,
    .open = [](const fs::path& path, MissingFiles) { return open_zarr(path); },
    .complete = unpack_optimizer,
    .reject_name = zarr::reject_name,
    .draft = draft_zarr,
});

constinit const Driver megatron_driver = megatron::with_shared_traits({
    .name = "megatron",
    .title = "Megatron rank files `mp_rank_*`, with plain or distributed optimizer",
    .values = ValueStorage::rank_files,
    .has_rank_names = true,
    .precedence = 30,  // before DeepSpeed: a folder with rank files of both is Megatron's
    .recognize_folder = recognize_rank_files,
    .checkpoint_of_root =
        checkpoint_of_megatron_root,  // before DeepSpeed, as Megatron-DeepSpeed writes the roots of both
    .open = [](const fs::path& path, MissingFiles) { return open_rank_files(path); },
    .complete =
        [](Checkpoint& checkpoint, const Families& families, const Config& config) {
            if (checkpoint.rank_files) assemble_ranks(checkpoint, families, config);
        },
    .reject_name = torch::reject_name,
    .draft = [](const Content& content, std::vector<std::string>&) { return draft_rank_files(content); },
});

}  // namespace tpx::formats
