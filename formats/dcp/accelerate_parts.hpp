// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace tpx::formats {

/// The subfolders of `folder` in which accelerate (and transformers' Trainer) stores an FSDP model, each a DCP
/// checkpoint: pytorch_model_fsdp_0 with {"model": ...} and, if it exists, optimizer_0 with {"optimizer": ...}.
/// Empty if there are none, if there are several models or optimizers, or if `folder` also has weights in files.
std::vector<std::string> accelerate_parts(const std::filesystem::path& folder);

/// Opens these parts of `folder` as one DCP checkpoint. Throws Error as open_chunks() does, and if both parts have the
/// same name.
void open_accelerate_parts(const std::filesystem::path& folder, Checkpoint& checkpoint, MissingFiles missing);

}  // namespace tpx::formats
