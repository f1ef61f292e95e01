// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace tpx {

/// A digest of a tensor's logical bytes: C order, little-endian elements. It is the same however the tensor is split
/// and in whatever order the parts are added; two tensors of equal length with equal bytes have equal digests.
struct Digest {
    std::uint64_t crc = 0;    ///< linear CRC-64 (ECMA-182) of the bytes added, at their positions in the tensor
    std::uint64_t bytes = 0;  ///< number of bytes added; the tensor's size once every element is added

    friend constexpr bool operator==(const Digest&, const Digest&) = default;
};

/// Adds the elements of `box` of a tensor of shape `whole`; they start at `data` and have `strides` (in elements).
/// Precondition: `box` is inside `whole`, and none of its elements was added before.
void add(Digest& digest, const Shape& whole, int itemsize, const Box& box, const std::byte* data,
         const Strides& strides);

/// The same for elements in row-major order without gaps.
void add(Digest& digest, const Shape& whole, int itemsize, const Box& box, const std::byte* data);

/// Sixteen hexadecimal digits, a dash, and the length.
std::string to_string(const Digest& digest);

}  // namespace tpx
