// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/plan/plan_file.hpp"

namespace tpx::formats {

/// Checks that everything in `content` refers to something: tensors are possible, pieces lie in their tensors and their
/// bytes in their files, file names stay in their directory, moves name pieces. Throws Error with the cause.
void check_values(const FileChange& content);

}  // namespace tpx::formats
