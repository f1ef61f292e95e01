// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <filesystem>

namespace tpx::formats {

/// Sets training_files and adapter_files of `checkpoint` to the files of these kinds in `directory`, a Hugging Face
/// folder, that do not belong to the checkpoint's tensors.
void find_folder_files(const std::filesystem::path& directory, Checkpoint& checkpoint);

/// Adds the training files in `directory`, a DCP or DeepSpeed folder, to training_files of `checkpoint`, including
/// Lightning's meta.pt.
void find_training_files(const std::filesystem::path& directory, Checkpoint& checkpoint);

/// Makes training_files and adapter_files companions if the target is a folder of the same kind: Hugging Face, DCP or
/// DeepSpeed. Otherwise these files, which cannot be converted, would be lost: throws Error (usage) that names those of
/// a Hugging Face folder, and adds a note about those of other folders.
void carry_folder_files(Checkpoint& checkpoint, Format target);

}  // namespace tpx::formats
