// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace tpx {

/// Creates a folder below TMPDIR that only this user can read, and returns its path without links. Its name begins with
/// `prefix`. Throws Error "TMPDIR: cause" or "PATH: cause".
std::filesystem::path make_temporary_folder(const char* prefix);

}  // namespace tpx
