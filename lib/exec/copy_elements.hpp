// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"
#include "lib/core/dtype.hpp"

#include <cstddef>

namespace tpx {

/// Copies the elements of an array of `sizes` from one place in memory to another; strides are in bytes, in any order.
/// Precondition: source and target do not overlap; itemsize is at least 1.
void copy_elements(const Shape& sizes, const std::byte* source, const Strides& source_strides, std::byte* target,
                   const Strides& target_strides, int itemsize);

/// Whether cast_elements can turn `from` into `to`: equal types, and any of f64, f32, f16, bf16, f8_e4m3 and f8_e5m2
/// into another of them.
bool can_cast(DType from, DType to);

/// Copies like copy_elements and casts each element: to the nearest value, ties to even, or to infinity (f8_e4m3:
/// NaN) beyond the largest value; a NaN becomes a quiet NaN. Returns whether a finite element became infinite, or any
/// element but a NaN the NaN of f8_e4m3. Throws Error "cannot cast FROM to TO" unless can_cast.
bool cast_elements(const Shape& sizes, const std::byte* source, const Strides& source_strides, DType from,
                   std::byte* target, const Strides& target_strides, DType to);

/// The same for `count` contiguous elements.
inline bool cast_elements(Index count, const std::byte* source, DType from, std::byte* target, DType to) {
    return cast_elements({count}, source, {itemsize(from)}, from, target, {itemsize(to)}, to);
}

}  // namespace tpx
