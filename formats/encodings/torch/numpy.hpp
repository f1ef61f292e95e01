// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"
#include "lib/core/box.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace tpx::torch {

/// A NumPy array or scalar as pickles hold it.
struct NumpyValue {
    bool scalar = false;
    std::string dtype;  ///< "f32", "i64", "u8", "bool", ...; else NumPy's own word
    Shape shape;
    std::string bytes;  ///< C order unless the array said otherwise, little-endian
};

/// `object` as one of NumPy's values; nothing when it is another object, or not built as NumPy builds it.
std::optional<NumpyValue> numpy_value(Value object);

/// The number that a scalar of ints, bools or floats is; nothing for others.
std::optional<std::variant<std::int64_t, double>> numpy_number(const NumpyValue& value);

}  // namespace tpx::torch
