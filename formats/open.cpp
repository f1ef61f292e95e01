// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/open.hpp"
#include "formats/checkpoint.hpp"
#include "formats/dcp/archive_forms.hpp"
#include "formats/dcp/dcp.hpp"
#include "formats/deepspeed/deepspeed.hpp"
#include "formats/gguf/gguf.hpp"
#include "formats/hdf5/hdf5.hpp"
#include "formats/held/held.hpp"
#include "formats/megatron/legacy.hpp"
#include "formats/megatron/torch_dist.hpp"
#include "formats/recognise.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "formats/torch/folder.hpp"
#include "lib/core/error.hpp"
#include "lib/core/name_list.hpp"
#include "lib/core/path.hpp"

#include <algorithm>
#include <array>

namespace tpx::formats {
namespace {

constexpr std::array<std::pair<Format, std::string_view>, 12> format_names{{{Format::safetensors, "safetensors"},
                                                                            {Format::dcp, "dcp"},
                                                                            {Format::torch_dist, "torch_dist"},
                                                                            {Format::torch, "torch"},
                                                                            {Format::torch_legacy, "torch-legacy"},
                                                                            {Format::megatron, "megatron"},
                                                                            {Format::deepspeed, "deepspeed"},
                                                                            {Format::universal, "universal"},
                                                                            {Format::hdf5, "hdf5"},
                                                                            {Format::keras, "keras"},
                                                                            {Format::keras_legacy, "keras-legacy"},
                                                                            {Format::gguf, "gguf"}}};

constexpr const char* readable_formats =
    "this version reads safetensors, dcp, torch_dist, Megatron's rank files, DeepSpeed, HDF5, Keras, GGUF and single "
    "torch.save files";

/// The error for a path that is not a checkpoint; lists checkpoints nearby, if any.
Error not_a_checkpoint(const std::filesystem::path& path) {
    const std::vector<Recognised> near = checkpoints_near(path);
    if (near.empty())
        return failure(
            "{}: not a checkpoint: found none of metadata.json, .metadata, latest_checkpointed_iteration.txt, "
            "*.safetensors.index.json or *.safetensors; {}",
            path.string(), readable_formats);
    NameList names;
    for (const Recognised& one : near) names.add(fmt::format("{} ({})", one.path.string(), one.description));
    return failure("{}: not a checkpoint, but found nearby: {}", path.string(), names.text());
}

}  // namespace

std::string_view name(Format format) {
    return std::ranges::find(format_names, format, &decltype(format_names)::value_type::first)->second;
}

std::optional<Format> format_by_name(std::string_view name) {
    const auto* found = std::ranges::find(format_names, name, &decltype(format_names)::value_type::second);
    if (found == format_names.end()) return std::nullopt;
    return found->first;
}

Checkpoint open(const std::filesystem::path& path, MissingFiles missing) {
    const Recognised found = recognise(path);
    if (found.description.empty()) throw not_a_checkpoint(path);
    if (!found.format) throw failure("{}: is {}; {}", found.path.string(), found.description, readable_formats);
    switch (*found.format) {
        case Format::safetensors:
            return open_safetensors(found.path);
        case Format::dcp:
            return path_is_directory(found.path) ? open_dcp(found.path, missing) : open_held(found.path);
        case Format::torch_dist:
            return open_torch_dist(found.path, missing);
        case Format::torch:
        case Format::torch_legacy:
            return path_is_directory(found.path) ? open_bin_files(found.path)
                                                 : open_torch_file(*found.format, found.path);
        case Format::deepspeed:
        case Format::universal:
            return open_deepspeed(found.path);
        case Format::megatron:
            return open_rank_files(found.path);
        case Format::hdf5:
        case Format::keras:
        case Format::keras_legacy:
            return open_hdf5(found.path);
        case Format::gguf:
            return open_gguf(found.path);
    }
    throw failure("{}: is of no format", path.string());
}

void locate(Checkpoint& checkpoint, std::span<const std::uint32_t> pieces) {
    if (!checkpoint.archives.empty()) locate_archives(checkpoint, pieces);
}

std::string answer_about(const std::filesystem::path& path, std::string_view question) {
    return answer_about_archives(path, question);
}

Draft draft(Format format, const Content& content) {
    std::vector<std::string> notes;  // of no interest here
    switch (format) {
        case Format::safetensors:
            return draft_safetensors(content);
        case Format::dcp:
            return content.held ? draft_held(content) : draft_dcp(content);
        case Format::torch_dist:
            return draft_torch_dist(content);
        case Format::megatron:
            return draft_rank_files(content);
        case Format::deepspeed:
            return draft_deepspeed(content, notes);
        case Format::universal:
            return draft_universal(content, notes);
        case Format::torch:
        case Format::torch_legacy:
            return draft_torch(format, content);
        case Format::hdf5:
            return draft_hdf5(content);
        case Format::keras:
        case Format::keras_legacy:
            return draft_keras(format, content);
        case Format::gguf:
            break;
    }
    throw failure("{} is read, not written; choose another format", name(format));
}

}  // namespace tpx::formats
