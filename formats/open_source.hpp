// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <filesystem>

namespace tpx::formats {

/// Opens and reads the checkpoint at `path`. `config` extends and overrides the configuration found beside the tensors,
/// except settings for which is_writing_setting() is true and which that configuration already has.
Source open_source(const std::filesystem::path& path, const Families& families, const Config& config,
                   MissingFiles missing = MissingFiles::refused);

}  // namespace tpx::formats
