// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"

#include <optional>
#include <span>
#include <vector>

namespace tpx::formats::deepspeed {

/// A box of a rank's local tensor, and its shift in the whole tensor.
struct SliceBlock {
    Box local;
    Tuple<Index> shift;
};

/// How slices of tensor-parallel ranks form a whole parameter.
struct Slicing {
    Shape whole;
    std::vector<std::vector<SliceBlock>> blocks;  ///< by tensor rank; empty if a rank adds nothing

    // What ds_to_universal records about such a parameter.
    std::optional<int> cat_dim;
    bool halves = false;          ///< two consecutive sub-parameters, each sliced (gate and up)
    bool replicated = false;      ///< all ranks have the whole parameter; the first rank's is used
    bool sub_parameters = false;  ///< several sub-parameters with sizes from the pattern
    bool vocabulary = false;      ///< padding rows after the vocabulary are cut off
};

/// The width of each of several consecutive sub-parameters on each rank.
using Widths = std::vector<std::vector<Index>>;

/// Concatenates slices of shapes `locals` along axis `dim`: for each sub-parameter in turn, the slices of all ranks.
/// Throws Error if the widths do not match the shapes.
Slicing concatenate_slices(std::span<const Shape> locals, int dim, const Widths& widths);

/// Keeps only the first `rows` rows; the others are vocabulary padding. Throws Error if there are fewer.
void cut_rows(Slicing& slicing, Index rows);

/// The slicing of a tensor that is not sliced.
Slicing unsliced(const Shape& shape);

}  // namespace tpx::formats::deepspeed
