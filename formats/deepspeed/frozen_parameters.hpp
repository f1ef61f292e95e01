// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// The start of the note of an opened checkpoint that frozen parameters may be missing.
inline constexpr std::string_view frozen_excluded_note = "saved with exclude_frozen_parameters=True";

/// On request, DeepSpeed excludes frozen parameters from a checkpoint, without recording their names. Throws Error if
/// `source` may lack some that the framework of `target` needs: a model of a known family must have all layers; other
/// models are converted only with --dialect keep, with a note.
void check_frozen_parameters(const Source& source, const Target& target, std::vector<std::string>& notes);

}  // namespace tpx::formats
