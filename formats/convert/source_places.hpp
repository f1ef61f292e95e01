// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"

namespace tpx::formats {

/// Sets the offset of each large piece of `out.content` to where the source has its first element in a block, or to 0
/// if the source stores it in another way. Precondition: `out` has the source's pieces and the parts of both sides.
void set_places(const Catalogue& source, Conversion& out);

}  // namespace tpx::formats
