// SPDX-License-Identifier: Apache-2.0
#include "lib/core/temporary_folder.hpp"

#include "lib/core/error.hpp"
#include "lib/core/path.hpp"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

namespace tpx {

std::filesystem::path make_temporary_folder(const char* prefix) {
    std::error_code error;
    const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
    if (error) throw failure("TMPDIR: {}", error.message());
    std::string name = (temporary / fmt::format("{}-XXXXXX", prefix)).string();
    if (!::mkdtemp(name.data())) throw system_failure(name, errno);
    return real_path(name);
}

}  // namespace tpx
