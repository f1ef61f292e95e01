// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <cstdint>
#include <span>

namespace tpx::formats {

/// Finds the payloads of `pieces` (indices into the catalogue): sets offset and strides, and the archive's length to 0,
/// which tells later calls to leave the piece alone. Costs two small reads for each large piece, and few reads for many
/// short ones. Throws Error "FILE: tensor 'NAME': ..." when an archive does not hold one tensor of the catalogue's
/// dtype and the piece's shape, whole.
void locate_archives(Checkpoint& checkpoint, std::span<const std::uint32_t> pieces);

}  // namespace tpx::formats
