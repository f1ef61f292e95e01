// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <filesystem>

namespace tpx::formats {

/// Sets training_files and adapter_files of `checkpoint` to what `directory`, a Hugging Face folder, contains of
/// them beside the files that hold the checkpoint's tensors.
void find_folder_files(const std::filesystem::path& directory, Checkpoint& checkpoint);

/// Makes files that cannot be converted companions where the target is a Hugging Face folder, too. Throws Error
/// (usage) that names them where it is not: they would be lost.
void settle_folder_files(Checkpoint& checkpoint, Format target);

}  // namespace tpx::formats
