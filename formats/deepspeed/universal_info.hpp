// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/affine_maps.hpp"
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

/// The universal_checkpoint_info that trainers add to their checkpoints. It describes tensor and pipeline parallelism.
class UniversalInfo {
public:
    UniversalInfo() = default;
    /// Throws Error if its structure is unexpected.
    explicit UniversalInfo(torch::Value info);

    /// The info that Megatron-DeepSpeed records for its own modules on request. `names` are parameters with the shapes
    /// of one tensor rank's slices. Unset if one of them does not belong to its modules.
    static std::optional<UniversalInfo> of_megatron_names(std::span<const std::pair<std::string, Shape>> names);

    bool given() const { return given_; }

    /// Whether several pipeline stages store a copy of parameter `name`; the first stage's is used.
    bool pipeline_replicated(std::string_view name) const;

    /// Joins the slices of parameter `name`, which have shapes `locals`, by tensor rank. Throws Error if the slices do
    /// not fit together, the way to join them is unknown, or patterns and affine map differ.
    Slicing slicing(const std::string& name, std::span<const Shape> locals) const;

    /// Cuts parameter `name`, of shape `whole` without vocabulary padding, into slices for `ranks` tensor ranks. A
    /// vocabulary is padded to `rows` rows. Each rank's blocks are its parts of the whole, including replicas; also
    /// returns the shapes of the slices. Throws Error (exit 2) if the parameter cannot be cut in this way.
    std::pair<Slicing, std::vector<Shape>> cut(const std::string& name, const Shape& whole, int ranks,
                                               Index rows) const;

    /// Whether the info defines how to cut the parameters of a run with one tensor rank: which are replicas, or cut
    /// along axis 1.
    bool knows_slices() const { return given_ && (!replicated_.empty() || !by_row_.empty() || !subs_.empty()); }
    /// Whether parameter `name` is a vocabulary that may be padded. AutoTP pads none.
    bool is_vocabulary(const std::string& name) const;
    std::optional<Index> vocabulary_size() const { return vocabulary_size_; }

private:
    struct SubParameters {
        std::vector<Pattern> patterns;
        std::vector<std::string> texts;
        int dim = 0;
        int axes = 0;
        std::vector<Index> sizes;  ///< of each along `dim`; empty if only their number is known
        Index count = 0;
    };

    Slicing slicing_of_patterns(const std::string& name, std::span<const Shape> locals) const;
    Widths cut_widths(const std::string& name, const Shape& whole, int ranks, int& dim) const;
    Widths widths_of(const SubParameters& subs, const std::string& pattern, std::span<const Shape> locals) const;

    bool given_ = false;
    std::vector<Pattern> replicated_, averaged_, halved_, by_row_, vocabulary_, pipeline_;
    std::vector<SubParameters> subs_;
    std::vector<std::pair<Pattern, std::string>> unsupported_;  ///< parameters that DeepSpeed cannot join, and why
    AffineMaps maps_;
    std::map<std::string, std::vector<std::vector<Index>>> widths_;  ///< widths by pattern, sub-parameter and rank
    std::optional<Index> vocabulary_size_;
};

}  // namespace tpx::formats::deepspeed
