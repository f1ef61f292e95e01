// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

#include <filesystem>
#include <string>

namespace tpx::formats {

/// Calls `add` for the non-tensor values in tensor files: safetensors headers, GGUF metadata, HDF5 attributes, and the
/// model's configuration from config.json or Keras. Throws Error if one of them is malformed.
void add_file_values(const Checkpoint& checkpoint, const AddValue& add);

/// The text of a file that is compared as a whole: its CRC-64 and its size.
std::string content_text(const std::filesystem::path& path);

}  // namespace tpx::formats
