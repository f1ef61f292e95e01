// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/express.hpp"

#include <string>

namespace tpx {

/// Throws Error when a setting of the source (`config`) makes it a model that the framework of `dialect` does not
/// compute, by the limits that the family's rules give; the message names the setting, what the framework does instead
/// and the option that accepts this.
void check_limits(const Expressed& expressed, const std::string& dialect, const Config& config);

}  // namespace tpx
