// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/core/file.hpp"

namespace tpx::formats {

/// Adds, for every hole of `checkpoint`, a piece whose bytes are zero, in a sparse in-memory file that exists until the
/// returned Fd is closed.
Fd fill_holes(Checkpoint& checkpoint);

}  // namespace tpx::formats
