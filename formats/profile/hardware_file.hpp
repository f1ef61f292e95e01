// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/hardware.hpp"

#include <string>

namespace tpx::formats {

/// The TOML that `tpx profile hardware` writes: hosts as parse_hosts reads them, and under [measured] what that passes
/// over.
std::string hardware_text(const Hardware& hardware);

}  // namespace tpx::formats
