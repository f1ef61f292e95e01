// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/express.hpp"

#include <string>

namespace tpx {

/// Throws Error if the framework of `dialect` does not follow a setting of the source (`config`), by the limits in the
/// family's rules; the message names the setting, what the framework does instead and the option that accepts the
/// difference.
void check_framework_limits(const ExpressedState& expressed, const std::string& dialect, const Config& config);

}  // namespace tpx
