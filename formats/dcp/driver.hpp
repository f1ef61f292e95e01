// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

namespace tpx::formats {

/// PyTorch's distributed checkpoint, on disk and held in memory.
extern const Driver dcp_driver;

}  // namespace tpx::formats
