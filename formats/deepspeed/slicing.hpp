// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/pattern.hpp"
#include "formats/torch/value.hpp"
#include "lib/core/box.hpp"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats::deepspeed {

/// A box of a rank's own tensor, and by how much it is shifted in the whole one.
struct Block {
    Box local;
    Tuple<Index> shift;
};

/// How the tensor-parallel ranks' slices of a parameter make the whole.
struct Slicing {
    Shape whole;
    std::vector<std::vector<Block>> blocks;  ///< by tensor rank; none where a rank adds nothing

    // What ds_to_universal writes beside a parameter that was sliced so.
    std::optional<int> cat_dim;
    bool halves = false;          ///< two sub-parameters one after the other, each sliced (gate and up)
    bool replicated = false;      ///< all ranks have all of it, and the first one's counts
    bool sub_parameters = false;  ///< several of sizes that the pattern tells
    bool vocabulary = false;      ///< rows beyond the vocabulary were padding and are cut off
};

/// What universal_checkpoint_info, which trainers add to their checkpoints, tells of tensor and pipeline parallelism.
class UniversalInfo {
public:
    UniversalInfo() = default;
    /// Throws Error when it is not built as expected, or has what tpx cannot follow (affine maps).
    explicit UniversalInfo(torch::Value info);

    bool given() const { return given_; }

    /// Whether several pipeline stages keep a copy of parameter `name`, of which the first counts.
    bool pipeline_replicated(std::string_view name) const;

    /// The whole of parameter `name` whose slices have shapes `locals`, by tensor rank. Throws Error when the slices do
    /// not fit together, or nothing says how they do.
    Slicing slicing(const std::string& name, std::span<const Shape> locals) const;

private:
    struct SubParameters {
        std::vector<Pattern> patterns;
        std::vector<std::string> texts;
        int dim = 0;
        int axes = 0;
        std::vector<Index> sizes;  ///< of each along `dim`; empty when only their number is known
        Index count = 0;
    };

    std::vector<std::vector<Index>> widths_of(const SubParameters& subs, const std::string& pattern,
                                              std::span<const Shape> locals) const;

    bool given_ = false;
    std::vector<Pattern> replicated_, averaged_, halved_, by_row_, vocabulary_, pipeline_;
    std::vector<SubParameters> subs_;
    std::map<std::string, std::vector<std::vector<Index>>> widths_;  ///< by pattern: of each sub-parameter, by rank
    std::optional<Index> vocabulary_size_;
};

/// The slicing of a tensor that is not sliced.
Slicing unsliced(const Shape& shape);

}  // namespace tpx::formats::deepspeed
