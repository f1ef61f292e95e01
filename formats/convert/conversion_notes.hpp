// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"

namespace tpx::formats {

/// Adds a note to `out` for each kind of data that `source` has and `target` cannot store.
void note_dropped(const Source& source, const Target& target, Conversion& out);

/// Adds a note about which loaders can read safetensors files that contain parts of tensors.
void note_split_files(const Target& target, Conversion& out);

}  // namespace tpx::formats
