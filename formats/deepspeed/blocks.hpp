// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"

#include <optional>
#include <span>
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

/// How wide each of several sub-parameters, which stand one after the other, is on each rank.
using Widths = std::vector<std::vector<Index>>;

/// Lays slices of shapes `locals` along axis `dim`: of each sub-parameter one rank's slice after the other. Throws
/// Error when the widths are not those of the shapes.
Slicing lay(std::span<const Shape> locals, int dim, const Widths& widths);

/// Cuts off what lies beyond the first `rows` rows, which is the padding of a vocabulary. Throws Error when there are
/// fewer.
void cut_rows(Slicing& slicing, Index rows);

/// The slicing of a tensor that is not sliced.
Slicing unsliced(const Shape& shape);

}  // namespace tpx::formats::deepspeed
