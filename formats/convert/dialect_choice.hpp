// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <string>
#include <vector>

namespace tpx::formats {

/// The dialect to write: the one that the user asked for, or else the one of the target's framework; null to keep the
/// names. Adds a note if names are kept because rules or dimensions are missing. Throws Error if names must be
/// converted but cannot be.
const Dialect* choose_dialect(const Source& source, const Target& target, std::vector<std::string>& notes);

}  // namespace tpx::formats
