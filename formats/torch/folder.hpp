// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>

namespace tpx::formats {

/// Whether `directory` has weights as transformers saved them before safetensors: pytorch_model.bin, or several files
/// with pytorch_model.bin.index.json.
bool holds_bin_files(const std::filesystem::path& directory);

/// Opens such a directory as the Hugging Face checkpoint that it is: its format is that of safetensors, which what is
/// made of it is written as. Throws Error "FILE: ..." for what open_torch_file() refuses, and where files and index do
/// not agree.
Checkpoint open_bin_files(const std::filesystem::path& directory);

}  // namespace tpx::formats
