// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

namespace tpx::formats {

/// The drivers of Megatron-core's distributed checkpoints (torch_dist and its former zarr backend), and of the rank
/// files of Megatron's legacy format.
extern const Driver torch_dist_driver;
extern const Driver zarr_driver;
extern const Driver megatron_driver;

}  // namespace tpx::formats
