// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/coding.hpp"

#include <cstddef>
#include <span>

namespace tpx {

/// The most bytes by which HDF5's scale-offset filter lengthens a chunk: its header and one more byte.
constexpr std::size_t scale_offset_overhead = 22;

/// Decodes a chunk that HDF5's scale-offset filter encoded into the elements `into`, in the byte order of the dataset.
/// Throws Error if the bytes are not those of that filter, or are too few for `into`.
void undo_scale_offset(const ScaleOffset& filter, std::span<const std::byte> from, std::span<std::byte> into);

}  // namespace tpx
