// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"

#include <filesystem>

namespace tpx::formats {

/// The number of samples in a data file: the sequences of a Megatron dataset, whose index FILE.idx is, or the lines of
/// FILE.txt. Throws Error "PATH: cause" when the file is damaged, or is of another kind, whose samples must be given.
Index count_samples(const std::filesystem::path& path);

}  // namespace tpx::formats
