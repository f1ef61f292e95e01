// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// How the note begins by which an opened checkpoint tells that frozen parameters may be missing.
inline constexpr std::string_view excludes_frozen = "saved with exclude_frozen_parameters=True";

/// DeepSpeed leaves frozen parameters out of a checkpoint when it is asked to, and records no names. Throws Error when
/// `source` may lack some that the framework of `target` needs: a model of a known family must have all its layers, and
/// one of no known family is converted only where its names are kept on request, with a line in `notes`.
void check_excluded(const Source& source, const Target& target, std::vector<std::string>& notes);

}  // namespace tpx::formats
