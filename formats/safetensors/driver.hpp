// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

namespace tpx::formats {

/// Hugging Face folders and files: safetensors, and `pytorch_model*.bin`, which tpx only reads.
extern const Driver safetensors_driver;

}  // namespace tpx::formats
