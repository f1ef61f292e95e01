// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"

namespace tpx::formats {

/// Adds a note to `out` for each kind of thing that `source` has and that `target` has no place for.
void note_dropped(const Source& source, const Target& target, Conversion& out);

/// Adds a note on who can load safetensors files that contain parts of tensors.
void note_split_files(const Target& target, Conversion& out);

}  // namespace tpx::formats
