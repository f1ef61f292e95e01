// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

namespace tpx::formats {

/// Throws Error (exit 1) if `source` is to be written in other names, in `dialect`, or in another dtype, although a
/// parameter or its optimizer state is stored in fp8 or as integers. Such elements are values only together with a
/// scale, for which the target has no tensor. Without `dialect` (null) and `target.dtype`, elements are copied as they
/// are.
void check_unscaled(const Source& source, const Target& target, const Dialect* dialect);

}  // namespace tpx::formats
