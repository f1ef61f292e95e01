// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace tpx {

/// Makes a new folder below TMPDIR, which only this user can read, and returns its path without links. `prefix` begins
/// its name. Throws Error "TMPDIR: cause" or "PATH: cause".
std::filesystem::path make_temporary_folder(const char* prefix);

}  // namespace tpx
