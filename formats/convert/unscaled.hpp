// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

namespace tpx::formats {

/// Throws Error (exit 1) if `source` is converted to the names of `dialect` or to another dtype although a parameter or
/// its optimizer state is stored in fp8 or as integers. Such elements need a scale, for which the target has no tensor.
/// Without `dialect` (null) and `target.dtype`, elements are copied unchanged. Weights in FP8 need no scale if the
/// target is `unscaled`.
void check_unscaled(const Source& source, const Target& target, const Dialect* dialect);

/// For targets that are `unscaled`, before anything is dequantized: throws Error (usage) if the source is quantized or
/// has a tensor that seems to be the scale of a weight in FP8, or if its optimizer state would continue from weights in
/// FP8. FP8 as the dtype requires `unscaled`.
void check_plain_casts(const Source& source, const Target& target);

}  // namespace tpx::formats
