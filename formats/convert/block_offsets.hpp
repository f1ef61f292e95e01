// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"

namespace tpx::formats {

/// Sets the offset of each large piece of `out.content` to the offset of its first element within a file system block
/// of the source, or to 0 if the source stores it in another form. Precondition: `out` has the source's pieces and the
/// parts of both sides.
void set_block_offsets(const Catalogue& source, Conversion& out);

}  // namespace tpx::formats
