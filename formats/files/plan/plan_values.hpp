// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/plan/plan_file.hpp"

namespace tpx::formats {

/// Checks that everything in `content` is valid: shapes are possible, pieces are inside their tensors and their bytes
/// inside their files, file names stay in their directory, moves refer to pieces. Throws Error with the cause.
void check_values(const FileChange& content);

}  // namespace tpx::formats
