// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"

namespace tpx::formats {

/// Matches tensors that keep their names, or become copies: fills the canonical tensors and parts of `out` for both
/// sides.
void match_by_name(const Source& source, Conversion& out);

/// Does the same for tensors of different dialects, part by part.
void match_by_parts(const Source& source, Conversion& out);

}  // namespace tpx::formats
