// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

namespace tpx::formats {

/// One file of torch.save: a zip archive, or the stream of PyTorch before 1.6.
extern const Driver torch_driver;
extern const Driver torch_legacy_driver;

}  // namespace tpx::formats
