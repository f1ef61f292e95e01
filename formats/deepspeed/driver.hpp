// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

namespace tpx::formats {

/// DeepSpeed's checkpoints and its universal checkpoints.
extern const Driver deepspeed_driver;
extern const Driver universal_driver;

}  // namespace tpx::formats
