// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

#include <string>

namespace tpx::formats {

/// "yes", "only if the source is Keras", or empty for a read-only format.
std::string written_text(const Driver& driver);

/// The map of formats in README.md.
std::string format_map_markdown();

}  // namespace tpx::formats
