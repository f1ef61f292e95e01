// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

#include <span>

namespace tpx::formats {

/// All drivers, in the order in which help and README list them.
std::span<const Format> drivers();

/// All drivers, in the order in which they are asked to recognize a path.
std::span<const Format> drivers_by_precedence();

}  // namespace tpx::formats
