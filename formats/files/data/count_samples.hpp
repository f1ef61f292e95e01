// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"

#include <filesystem>

namespace tpx::formats {

/// The number of samples in a data file: the sequences of the Megatron dataset with the index FILE.idx, or the lines of
/// FILE.txt. Throws Error "PATH: cause" if the file is damaged or of another kind, for which the user must give the
/// number.
Index count_samples(const std::filesystem::path& path);

}  // namespace tpx::formats
