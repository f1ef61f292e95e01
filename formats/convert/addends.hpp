// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <optional>
#include <string>

namespace tpx::formats {

/// Changes the values of weights and masters of `source` from what its dialect stores to what `dialect` stores, where
/// the rules of the two have different addends (see Expression). The values are computed when they are read, in f32,
/// from the masters where there are some, and rounded once: to the type of the tensor, or to `dtype` if that is wider.
/// Returns a note, which is empty if no values change. Throws Error "tensor 'NAME': ..." if values cannot be computed.
std::string change_addends(Source& source, const Dialect& dialect, std::optional<DType> dtype);

}  // namespace tpx::formats
