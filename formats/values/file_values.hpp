// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <functional>
#include <string>

namespace tpx::formats {

using AddValue = std::function<void(const std::string& path, std::string text)>;

/// Calls `add` for the values that files of tensors store beside them: headers of safetensors, metadata of GGUF,
/// attributes of HDF5, and the model's configuration, as config.json or as Keras stores it. Throws Error when one of
/// them is malformed.
void add_file_values(const Checkpoint& checkpoint, const AddValue& add);

}  // namespace tpx::formats
