// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <string>
#include <vector>

namespace tpx::formats {

/// The dialect to write, or null to keep the names as they are: the one that is asked for, or else what the target's
/// framework uses. Adds a note when names are kept because the source lacks rules or dimensions. Throws Error for names
/// that cannot be made and must be.
const Dialect* choose_dialect(const Source& source, const Target& target, std::vector<std::string>& notes);

}  // namespace tpx::formats
