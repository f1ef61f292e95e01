// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>

namespace tpx::formats {

/// Whether `directory` contains weights in the form that transformers used before safetensors: pytorch_model.bin, or
/// several files with pytorch_model.bin.index.json.
bool holds_bin_files(const std::filesystem::path& directory);

/// Opens such a directory as a Hugging Face checkpoint: its format is safetensors, in which results are also written.
/// Throws Error "FILE: ..." where open_torch_file() does, and if files and index disagree.
Checkpoint open_bin_files(const std::filesystem::path& directory);

}  // namespace tpx::formats
