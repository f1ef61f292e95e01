// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

namespace tpx::formats {

/// Calls `add` for the non-tensor values in tensor files: safetensors headers, GGUF metadata, HDF5 attributes, and the
/// model's configuration from config.json or Keras. Throws Error if one of them is malformed.
void add_file_values(const Checkpoint& checkpoint, const AddValue& add);

}  // namespace tpx::formats
