// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/blocks.hpp"
#include "formats/deepspeed/pattern.hpp"
#include "formats/encodings/torch/value.hpp"
#include "lib/core/box.hpp"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::formats::deepspeed {

/// What universal_checkpoint_info, which trainers add to their checkpoints, tells of tensor and pipeline parallelism.
class UniversalInfo {
public:
    UniversalInfo() = default;
    /// Throws Error when it is not built as expected, or has what tpx cannot follow (affine maps).
    explicit UniversalInfo(torch::Value info);

    /// What Megatron-DeepSpeed tells of its own modules when it is asked to, for `names` of parameters with the shapes
    /// that a tensor rank has of them; nothing when one of them is none of its modules'.
    static std::optional<UniversalInfo> of_megatron_names(std::span<const std::pair<std::string, Shape>> names);

    bool given() const { return given_; }

    /// Whether several pipeline stages keep a copy of parameter `name`, of which the first counts.
    bool pipeline_replicated(std::string_view name) const;

    /// The whole of parameter `name` whose slices have shapes `locals`, by tensor rank. Throws Error when the slices do
    /// not fit together, or nothing says how they do.
    Slicing slicing(const std::string& name, std::span<const Shape> locals) const;

    /// The slices that `ranks` tensor ranks are to have of parameter `name`: its whole self has shape `whole`, without
    /// the padding of a vocabulary, which shall have `rows` rows in all where it is one. Every rank's blocks say what
    /// of the whole it has, replicas included. Throws Error (exit 2) when the parameter cannot be cut so.
    std::pair<Slicing, std::vector<Shape>> cut(const std::string& name, const Shape& whole, int ranks,
                                               Index rows) const;

    /// Whether it tells how a run of one tensor rank would be cut: which tensors are replicas, or cut along axis 1.
    bool knows_slices() const { return given_ && (!replicated_.empty() || !by_row_.empty() || !subs_.empty()); }
    bool is_vocabulary(std::string_view name) const;
    std::optional<Index> vocabulary_size() const { return vocabulary_size_; }

private:
    struct SubParameters {
        std::vector<Pattern> patterns;
        std::vector<std::string> texts;
        int dim = 0;
        int axes = 0;
        std::vector<Index> sizes;  ///< of each along `dim`; empty when only their number is known
        Index count = 0;
    };

    Widths cut_widths(const std::string& name, const Shape& whole, int ranks, int& dim) const;
    Widths widths_of(const SubParameters& subs, const std::string& pattern, std::span<const Shape> locals) const;

    bool given_ = false;
    std::vector<Pattern> replicated_, averaged_, halved_, by_row_, vocabulary_, pipeline_;
    std::vector<SubParameters> subs_;
    std::map<std::string, std::vector<std::vector<Index>>> widths_;  ///< by pattern: of each sub-parameter, by rank
    std::optional<Index> vocabulary_size_;
};

}  // namespace tpx::formats::deepspeed
