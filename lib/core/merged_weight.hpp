// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/coding.hpp"

#include <memory>
#include <string>
#include <utility>

namespace tpx {

/// A weight and what a LoRA adapter adds to it. Element (r, c) has the value base + delta, rounded to `dtype`, and
/// delta = scale * sum over k of left(r, k) * right(k, c). As in PEFT on a CPU, all values are computed in f32, and the
/// sum in the order of k with fused multiply-adds. With `magnitudes` (DoRA), the value is multiplied by magnitude /
/// norm of its row before it is rounded. Without factors, the value is base + addend. Rows, columns and dtype are
/// members of ScaledCodes; a MergedWeight is a ScaledCodes without codes (bits = 0).
struct MergedWeight : ScaledCodes {
    /// A stored matrix: element (r, c) is number r * row_step + c * column_step of `part`.
    struct Factor {
        Part part;
        Index row_step = 0;
        Index column_step = 0;
    };

    Part base;       ///< rows * columns numbers, row by row
    Index rank = 0;  ///< columns of `left` and rows of `right`; 0: there are no factors
    Factor left;
    Factor right;
    float scale = 1;
    float addend = 0;                ///< added to a weight without factors
    bool rounds_delta = false;       ///< delta is rounded to `dtype` before it is added, as PEFT does for embeddings
    std::optional<Part> magnitudes;  ///< DoRA: a number for each row
};

/// The coding of the values of `weight`, the tensor `owner`, row by row.
inline Coding coding_of(MergedWeight weight, std::string owner) {
    weight.bits = 0;
    return Coding::of_values(std::make_shared<const MergedWeight>(std::move(weight)), std::move(owner));
}

/// The MergedWeight whose values `coding` describes, if coding_of() made it; otherwise null.
inline const MergedWeight* merged_weight(const Coding& coding) {
    const bool merged = coding.scaled != nullptr && coding.scaled->bits == 0;
    return merged ? static_cast<const MergedWeight*>(coding.scaled.get()) : nullptr;
}

}  // namespace tpx
