// SPDX-License-Identifier: Apache-2.0
#include "formats/checkpoint.hpp"

#include "formats/driver.hpp"
#include "formats/encodings/dcp/archive_forms.hpp"
#include "formats/encodings/dcp/locate.hpp"
#include "formats/recognize.hpp"
#include "lib/core/error.hpp"
#include "lib/core/name_list.hpp"

namespace tpx::formats {
namespace {

constexpr const char* readable_formats =
    "this version reads safetensors, dcp, torch_dist, zarr, Megatron's rank files, DeepSpeed, HDF5, Keras, GGUF and "
    "single "
    "torch.save files";

/// The error for a path that is not a checkpoint; lists checkpoints nearby, if any.
Error not_a_checkpoint(const std::filesystem::path& path) {
    const std::vector<Recognized> near = checkpoints_near(path);
    if (near.empty())
        return failure(
            "{}: not a checkpoint: found none of metadata.json, .metadata, latest_checkpointed_iteration.txt, "
            "*.safetensors.index.json or *.safetensors; {}",
            path.string(), readable_formats);
    NameList names;
    for (const Recognized& one : near) names.add(fmt::format("{} ({})", one.path.string(), one.description));
    return failure("{}: not a checkpoint, but found nearby: {}", path.string(), names.text());
}

}  // namespace

Checkpoint open(const std::filesystem::path& path, MissingFiles missing) {
    const Recognized found = recognize(path);
    if (found.description.empty()) throw not_a_checkpoint(path);
    if (found.format == nullptr)
        throw failure("{}: is {}; {}", found.path.string(), found.description, readable_formats);
    return found.format->open(found.path, missing);
}

void locate(Checkpoint& checkpoint, std::span<const std::uint32_t> pieces) {
    if (!checkpoint.archives.empty()) locate_archives(checkpoint, pieces);
}

std::string answer_about(const std::filesystem::path& path, std::string_view question) {
    return answer_about_archives(path, question);
}

Draft draft(Format format, const Content& content) {
    std::vector<std::string> notes;  // ignored
    return draft(format, content, notes);
}

Draft draft(Format format, const Content& content, std::vector<std::string>& notes) {
    if (format->draft == nullptr) throw failure("{} can be read but not written; choose another format", name(format));
    return format->draft(content, notes);
}

}  // namespace tpx::formats
