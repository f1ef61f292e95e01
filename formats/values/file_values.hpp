// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

namespace tpx::formats {

/// Calls `add` for the values that files of tensors store beside them: headers of safetensors, metadata of GGUF,
/// attributes of HDF5, and the model's configuration, as config.json or as Keras stores it. Throws Error when one of
/// them is malformed.
void add_file_values(const Checkpoint& checkpoint, const AddValue& add);

}  // namespace tpx::formats
