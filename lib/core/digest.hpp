// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace tpx {

/// A digest of a tensor's logical bytes: C order, little-endian elements. It is the same however the tensor is cut and
/// in whatever order the parts are added; two tensors of equal length with equal bytes have equal digests.
struct Digest {
    std::uint64_t crc = 0;    ///< linear CRC-64 (ECMA-182) of the bytes added, at their places in the whole
    std::uint64_t bytes = 0;  ///< how many were added; the length of the whole once each element was added once

    friend constexpr bool operator==(const Digest&, const Digest&) = default;
};

/// Adds the elements of `box` of a tensor of shape `whole`, which lie in memory from `data` on with `strides` in
/// elements. Precondition: `box` lies in `whole` and was not added before.
void add(Digest& digest, const Shape& whole, int itemsize, const Box& box, const std::byte* data,
         const Strides& strides);

/// The same for elements that lie in row-major order without gaps.
void add(Digest& digest, const Shape& whole, int itemsize, const Box& box, const std::byte* data);

/// Sixteen hexadecimal digits, a dash, and the length.
std::string to_string(const Digest& digest);

}  // namespace tpx
