// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

namespace tpx::formats {

/// The former zarr backend of Megatron-core's dist_checkpointing.
extern const Driver zarr_driver;

}  // namespace tpx::formats
