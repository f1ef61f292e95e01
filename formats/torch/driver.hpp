// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

namespace tpx::formats {

/// One torch.save file: a zip archive, or the legacy stream of PyTorch before 1.6.
extern const Driver torch_driver;
extern const Driver torch_legacy_driver;

}  // namespace tpx::formats
