// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace tpx::formats {

/// The subfolders of `folder` in which accelerate, and so transformers' Trainer, stores a model under FSDP: each is a
/// DCP checkpoint, {"model": ...} in pytorch_model_fsdp_0 and {"optimizer": ...} in optimizer_0, which may be missing.
/// Empty if there are none, if there are several models or optimizers, or if `folder` also has weights in files.
std::vector<std::string> accelerate_parts(const std::filesystem::path& folder);

/// Opens these parts of `folder` as one DCP checkpoint. Throws Error as open_chunks() does, and for a name that two
/// parts have.
void open_accelerate_parts(const std::filesystem::path& folder, Checkpoint& checkpoint, MissingFiles missing);

}  // namespace tpx::formats
