// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"
#include "lib/core/box.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace tpx::torch {

/// A NumPy array or scalar as pickles store it.
struct NumpyValue {
    bool scalar = false;
    std::string dtype;  ///< "f32", "i64", "u8", "bool", ...; otherwise NumPy's own name
    Shape shape;
    std::string bytes;  ///< little-endian, in row-major order
};

/// `object` as a NumPy value; unset if it is another object, or is not built as NumPy builds it.
std::optional<NumpyValue> numpy_value(Value object);

/// The number of an integer, bool or float scalar; unset for u64, f16 and all other dtypes.
std::optional<std::variant<std::int64_t, double>> numpy_number(const NumpyValue& value);

}  // namespace tpx::torch
