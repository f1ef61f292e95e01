// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/conversion.hpp"

namespace tpx::formats {

/// Whether drafts of the format put large payloads at the places in blocks that their content asks for.
constexpr bool aligns_payloads(Format format) {
    return format == Format::safetensors || format == Format::dcp || format == Format::torch_dist;
}

/// Sets the offset of each large piece of `out.content` to where the source has its first element in a block, or to 0
/// if the source stores it in another way. Precondition: `out` has the source's pieces and the parts of both sides.
void set_places(const Catalogue& source, Conversion& out);

}  // namespace tpx::formats
