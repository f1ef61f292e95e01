// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"

namespace tpx::formats {

/// Joins tensors that keep their names: each is canonical itself; where padding differs, what both sides have of it.
void join_by_name(const Source& source, Conversion& out);

/// Joins tensors of different dialects part by part.
void join_by_parts(const Source& source, Conversion& out);

}  // namespace tpx::formats
