// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

namespace tpx::formats {

/// GGUF, a read-only format.
extern const Driver gguf_driver;

}  // namespace tpx::formats
