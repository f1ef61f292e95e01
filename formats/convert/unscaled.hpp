// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

namespace tpx::formats {

/// Throws Error (exit 1) if `source` is converted to the names of `dialect` or to another dtype although a parameter or
/// its optimizer state is stored in fp8 or as integers. Such elements need a scale, for which the target has no tensor.
/// Without `dialect` (null) and `target.dtype`, elements are copied unchanged.
void check_unscaled(const Source& source, const Target& target, const Dialect* dialect);

}  // namespace tpx::formats
