// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"

#include <filesystem>

namespace tpx::formats::deepspeed {

/// Opens a file of a step folder. Throws Error if torch.save wrote it as the file of another rank, layer or expert: an
/// archive contains the name that its file was saved under.
torch::Archive open_step_file(const std::filesystem::path& path);

}  // namespace tpx::formats::deepspeed
