// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

#include <string>

namespace tpx::formats {

/// "yes", "only if the source is Keras", or empty for a format that is only read.
std::string written_text(const Driver& driver);

/// The map of formats as README.md has it.
std::string format_map_markdown();

}  // namespace tpx::formats
