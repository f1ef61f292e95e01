// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

namespace tpx::formats {

/// GGUF, which is only read.
extern const Driver gguf_driver;

}  // namespace tpx::formats
