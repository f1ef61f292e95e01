// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace tpx::formats::deepspeed {

/// Opens a file of a step folder. An archive contains the name that its file was saved under. Throws Error if that is
/// the name of another rank's or expert's file; adds a note if it is that of another layer or kind of file.
torch::Archive open_step_file(const std::filesystem::path& path, std::vector<std::string>& notes);

}  // namespace tpx::formats::deepspeed
