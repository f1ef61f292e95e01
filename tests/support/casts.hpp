// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/copy_elements.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace tpx::test {

/// The values of a vector as another dtype.
template <class From, class To>
std::vector<To> cast(const std::vector<From>& values, DType from, DType to) {
    std::vector<To> out(values.size());
    cast_elements(Shape{Index(values.size())}, reinterpret_cast<const std::byte*>(values.data()), {sizeof(From)}, from,
                  reinterpret_cast<std::byte*>(out.data()), {sizeof(To)}, to);
    return out;
}

/// The value of a 16-bit float with `mantissa` bits, by the definition.
inline double value_of(std::uint16_t bits, int mantissa) {
    const int exponent_bits = 15 - mantissa;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = bits >> mantissa & ((1 << exponent_bits) - 1);
    const int fraction = bits & ((1 << mantissa) - 1);
    double value = std::ldexp(fraction + (exponent ? 1 << mantissa : 0), std::max(exponent, 1) - bias - mantissa);
    if (exponent == (1 << exponent_bits) - 1)
        value = fraction ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    return bits & 0x8000 ? -value : value;
}

}  // namespace tpx::test
