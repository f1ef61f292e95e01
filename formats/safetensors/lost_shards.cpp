// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors/lost_shards.hpp"

#include "formats/encodings/safetensors/header.hpp"
#include "formats/safetensors/select_files.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/size_conflict.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <span>

namespace tpx::formats::safetensors {
namespace {

/// The number of the last shard; unset if the files are not those of ranks, or record the number of ranks.
std::optional<int> last_shard(const Catalogue& catalogue) {
    std::optional<int> last;
    for (const FileEntry& file : catalogue.files) {
        const auto name = parse_part_name(file.path.filename().string());
        if (name && name->shard) last = std::max(last.value_or(0), *name->shard);
    }
    if (!last) return last;
    bool is_part = false;
    for (const auto& [key, text] : read_header(catalogue.path(0)).metadata) {
        if (key == ranks_key) return std::nullopt;
        is_part |= key == "DCP_SHARDING_INFO";
    }
    return is_part ? last : std::nullopt;
}

/// Whether the last part of a tensor is of `rank`, and too short for more ranks: FSDP gives all ranks parts of
/// ceil(length / ranks), as far as the length goes.
bool ends_in(const Catalogue& catalogue, int rank) {
    const Piece* first = nullptr;
    for (const Piece& piece : catalogue.pieces) {
        if (first == nullptr || first->tensor != piece.tensor) first = &piece;
        const Shape& shape = catalogue.tensors[piece.tensor].shape;
        if (piece.rank != rank || empty(piece.box)) continue;
        for (int k = 0; k < shape.size(); ++k) {
            const Index part = first->box[k].size();
            if (piece.box[k].end != shape[k] || piece.box[k].size() >= part) continue;
            const Index ranks = (shape[k] - 1) / part + 2;  // one more than there are parts
            if ((shape[k] - 1) / ranks + 1 < part) return true;
        }
    }
    return false;
}

/// Whether a factor is as long in a tensor that is split along it as in the configuration, or in a tensor that is not:
/// without a shard, it would be shorter. Call it if find_size_conflict() found nothing.
bool are_sizes_confirmed(const Catalogue& catalogue, const Reading& reading) {
    const Dims configured{*reading.family, reading.source(), reading.config};
    std::set<char> split;
    std::set<char> known;
    for (const auto& [letter, size] : configured.known()) known.insert(letter);
    for (const Piece& piece : catalogue.pieces) {
        const Tensor& tensor = catalogue.tensors[piece.tensor];
        const std::vector<Axis> axes = axes_of_weight(reading, tensor, reading.meanings[piece.tensor]);
        int k = tensor.shape.size() - static_cast<int>(axes.size());
        for (const Axis& axis : axes) {
            const bool is_whole = piece.box[k] == Interval{0, tensor.shape[k]};
            if (axis.size() == 1) (is_whole ? known : split).insert(axis[0].letter);
            ++k;
        }
    }
    return std::ranges::any_of(split, [&](char letter) { return known.contains(letter); });
}

}  // namespace

void check_lost_shards(Checkpoint& checkpoint, const Families& families, const Config& config) {
    const Catalogue& catalogue = checkpoint.catalogue;
    const auto last = last_shard(catalogue);
    if (!last) return;
    const Reading reading = read(catalogue.tensors, families, config);
    const auto conflict = reading.family ? find_size_conflict(reading, catalogue.tensors) : std::nullopt;
    if (conflict) {
        const Tensor& tensor = catalogue.tensors[conflict->tensor];
        Shape implied = tensor.shape;
        implied[conflict->axis] = conflict->implied;
        throw failure(
            "tensor '{}': shape {}, but the configuration or other tensors imply {}; files of shards after {} may be "
            "missing",
            tensor.name, to_string(tensor.shape), to_string(implied), *last);
    }
    if (ends_in(catalogue, *last - 1) || (reading.family && are_sizes_confirmed(catalogue, reading))) return;
    checkpoint.warnings.push_back(
        fmt::format("the files do not record the number of shards; whether there were more than {} is unknown{}", *last,
                    reading.family ? " (--config config.json checks the shapes)" : ""));
}

}  // namespace tpx::formats::safetensors
