// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors/lost_shards.hpp"

#include "formats/encodings/safetensors/header.hpp"
#include "formats/safetensors/select_files.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/parts.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace tpx::formats::safetensors {
namespace {

/// The number of the last shard; 0 if the files are not shards, or record how many there are.
int last_shard(const Catalogue& catalogue) {
    int last = 0;
    for (const FileEntry& file : catalogue.files)
        if (const auto name = parse_part_name(file.path.filename().string()); name && name->shard)
            last = std::max(last, *name->shard);
    // A file that was opened alone has no rank.
    if (last == 0 || std::ranges::all_of(catalogue.pieces, [](const Piece& piece) { return piece.rank < 0; })) return 0;
    const Metadata metadata = read_header(catalogue.path(0)).metadata;
    const auto has = [&](std::string_view key) {
        return std::ranges::any_of(metadata, [&](const auto& entry) { return entry.first == key; });
    };
    return has("DCP_SHARDING_INFO") && !has(ranks_key) ? last : 0;
}

/// True if some tensor's last part belongs to `rank` and is shorter than its first part. FSDP fills ranks in order, so
/// no further rank has elements of that tensor.
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

/// The axes of a stored weight, without the leading axis of layers; empty if one rule does not describe it alone, or if
/// its elements may be packed codes.
std::vector<Axis> axes_of_weight(const Reading& reading, const Tensor& tensor, const Meaning& meaning) {
    const bool is_plain = is_real(tensor.dtype) || tensor.dtype == DType::f8_e4m3 || tensor.dtype == DType::f8_e5m2;
    if (!is_plain || meaning.kind != Meaning::Kind::parameter || meaning.role != Role::weight ||
        meaning.rule->expression.parts.size() > 1)
        return {};
    std::vector<Axis> axes = shape_axes(*reading.family, meaning);
    std::erase_if(axes, [](const Axis& axis) { return axis[0].letter == 'l'; });
    if (std::ssize(axes) > tensor.shape.size()) axes.clear();
    return axes;
}

/// Compares axes that are split among ranks, which a lost shard makes shorter, with sizes that it does not change:
/// those in the configuration, and those of axes that are not split.
class SplitAxes {
public:
    /// An axis that is shorter than its factors are elsewhere.
    struct Conflict {
        std::uint32_t tensor = 0;
        int axis = 0;
        Index implied = 0;
        std::string source;  ///< "the configuration" or "tensor 'NAME'"
    };

    SplitAxes(const Catalogue& catalogue, const Reading& reading, int shards)
        : catalogue_{catalogue}, reading_{reading} {
        find_axes(shards);
        const Dims configured{*reading.family, reading.source(), reading.config};
        for (const auto& [letter, size] : configured.known()) sizes_[letter] = {size, "the configuration"};
        for (const StoredAxis& axis : axes_)
            if (!axis.split && axis.factors.size() == 1)
                sizes_.emplace(axis.factors[0].letter,
                               Size{size_of(axis), fmt::format("tensor '{}'", catalogue.tensors[axis.tensor].name)});
        remove_contradictions();
    }

    std::optional<Conflict> conflict() const {
        for (const StoredAxis& axis : axes_) {
            const auto implied = axis.split ? implied_size(axis.factors) : std::nullopt;
            if (implied && size_of(axis) < implied->size)
                return Conflict{axis.tensor, axis.number, implied->size, implied->source};
        }
        return std::nullopt;
    }

    /// True if a split axis has the size that is known from elsewhere. Without the last shard, the two would differ.
    bool are_confirmed() const {
        return std::ranges::any_of(axes_, [&](const StoredAxis& axis) {
            const auto implied = axis.split ? implied_size(axis.factors) : std::nullopt;
            return implied && size_of(axis) == implied->size;
        });
    }

private:
    struct StoredAxis {
        std::uint32_t tensor = 0;
        int number = 0;
        Axis factors;
        bool split = false;
    };

    struct Size {
        Index size = 1;
        std::string source;
    };

    Index size_of(const StoredAxis& axis) const { return catalogue_.tensors[axis.tensor].shape[axis.number]; }

    /// Lists the axes of weights. The only shard does not show how others would be split; FSDP splits the first axis.
    void find_axes(int shards) {
        std::set<std::pair<std::uint32_t, int>> split;
        for (const Piece& piece : catalogue_.pieces)
            for (int k = 0; k < piece.box.size(); ++k)
                if (piece.box[k] != Interval{0, catalogue_.tensors[piece.tensor].shape[k]} || (shards == 1 && k == 0))
                    split.emplace(piece.tensor, k);
        for (std::uint32_t t = 0; t < catalogue_.tensors.size(); ++t) {
            const std::vector<Axis> axes = axes_of_weight(reading_, catalogue_.tensors[t], reading_.meanings[t]);
            int k = catalogue_.tensors[t].shape.size() - static_cast<int>(axes.size());
            for (const Axis& axis : axes) {
                axes_.push_back({t, k, axis, split.contains({t, k})});
                ++k;
            }
        }
    }

    /// Removes factors whose size differs between whole axes, as in models with pruned layers.
    void remove_contradictions() {
        std::set<char> contradictory;
        for (const StoredAxis& axis : axes_) {
            const auto implied = axis.split ? std::nullopt : implied_size(axis.factors);
            if (!implied || implied->size == size_of(axis)) continue;
            for (const Token factor : axis.factors) contradictory.insert(factor.letter);
        }
        for (const char letter : contradictory) sizes_.erase(letter);
    }

    /// The size of an axis; unset if it is padded, or has a factor whose size is unknown or varies.
    std::optional<Size> implied_size(const Axis& factors) const {
        Size all{1, "the configuration"};
        for (const Token factor : factors) {
            const auto found = sizes_.find(factor.letter);
            if (factor.padded || found == sizes_.end() || reading_.family->varies(factor.letter) ||
                __builtin_mul_overflow(all.size, found->second.size, &all.size))
                return std::nullopt;
            if (found->second.source.starts_with("tensor")) all.source = found->second.source;
        }
        return all;
    }

    const Catalogue& catalogue_;
    const Reading& reading_;
    std::vector<StoredAxis> axes_;
    std::map<char, Size> sizes_;
};

}  // namespace

void check_lost_shards(Checkpoint& checkpoint, const Families& families, const Config& config) {
    const Catalogue& catalogue = checkpoint.catalogue;
    const int last = last_shard(catalogue);
    if (last == 0) return;
    const Reading reading = read(catalogue.tensors, families, config);
    if (reading.family) {
        const SplitAxes axes{catalogue, reading, last};
        if (const auto conflict = axes.conflict()) {
            const Tensor& tensor = catalogue.tensors[conflict->tensor];
            Shape implied = tensor.shape;
            implied[conflict->axis] = conflict->implied;
            const bool configured = !conflict->source.starts_with("tensor");
            throw failure("tensor '{}': shape {}, but {} implies {}; restore the files of shards after {}{}",
                          tensor.name, to_string(tensor.shape), conflict->source, to_string(implied), last,
                          configured ? ", or fix config.json" : "");
        }
        if (axes.are_confirmed()) return;
    }
    if (ends_in(catalogue, last - 1)) return;
    const bool can_check = reading.family && checkpoint.config_json.empty();
    checkpoint.warnings.push_back(fmt::format(
        "cannot tell whether files of shards after {} are missing: PyTorch does not record the number of shards{}",
        last, can_check ? "; pass --config config.json to check the shapes" : ""));
}

}  // namespace tpx::formats::safetensors
