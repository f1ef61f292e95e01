// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

namespace tpx::formats {

/// DeepSpeed's checkpoints, and its universal ones.
extern const Driver deepspeed_driver;
extern const Driver universal_driver;

}  // namespace tpx::formats
