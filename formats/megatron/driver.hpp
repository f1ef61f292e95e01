// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

namespace tpx::formats {

/// Megatron-core's distributed checkpoint, that of its former zarr backend, and the rank files of its legacy format.
extern const Driver torch_dist_driver;
extern const Driver zarr_driver;
extern const Driver megatron_driver;

}  // namespace tpx::formats
