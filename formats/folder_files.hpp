// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <filesystem>

namespace tpx::formats {

/// Sets training_files and adapter_files of `checkpoint` to the files of these kinds in `directory`, a Hugging Face
/// folder, that do not belong to the checkpoint's tensors.
void find_folder_files(const std::filesystem::path& directory, Checkpoint& checkpoint);

/// If the target is also a Hugging Face folder, makes training_files and adapter_files companions. Otherwise throws
/// Error (usage) that names these files, which cannot be converted and would be lost.
void carry_folder_files(Checkpoint& checkpoint, Format target);

}  // namespace tpx::formats
