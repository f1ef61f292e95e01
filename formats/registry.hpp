// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

#include <span>

namespace tpx::formats {

/// All drivers, each once, in the order in which people should read of them.
std::span<const Format> drivers();

/// The same in the order in which they are asked what a path is.
std::span<const Format> drivers_by_precedence();

}  // namespace tpx::formats
