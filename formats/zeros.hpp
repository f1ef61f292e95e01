// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/core/file.hpp"

namespace tpx::formats {

/// Gives every hole of `checkpoint` a piece whose bytes are zero, from a file in memory that lives as long as what is
/// returned and takes no space.
Fd fill_holes(Checkpoint& checkpoint);

}  // namespace tpx::formats
