// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <cstdint>
#include <span>

namespace tpx::formats {

/// Finds the payloads of `pieces` (indices into the catalogue): sets each piece's offset and strides, and its archive's
/// length to 0 so that later calls skip the piece. Needs two small reads for each large piece, and a few reads for many
/// short ones. Throws Error "FILE: tensor 'NAME': ..." if an archive does not contain one complete tensor of the
/// catalogue's dtype and the piece's shape.
void locate_archives(Checkpoint& checkpoint, std::span<const std::uint32_t> pieces);

}  // namespace tpx::formats
