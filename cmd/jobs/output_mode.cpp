// SPDX-License-Identifier: Apache-2.0
#include "cmd/jobs/output_mode.hpp"

#include "lib/core/error.hpp"
#include "lib/core/path.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <set>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

/// The permission bits that `mode` does not grant to group and others. A class of users that cannot read gets no
/// permissions, so that it cannot enter a folder whose files it cannot read.
unsigned denied_by(unsigned mode, bool folder) {
    unsigned denied = 0;
    for (const unsigned shift : {3u, 0u}) {
        const unsigned bits = mode >> shift & 7;
        const unsigned needed = folder ? 5 : 4;
        if ((bits & needed) != needed)
            denied |= 7u << shift;
        else if ((bits & 2) == 0)
            denied |= 2u << shift;
    }
    return denied;
}

unsigned denied_by(const fs::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) throw system_failure(path, errno);
    return denied_by(status.st_mode, S_ISDIR(status.st_mode));
}

bool is_below(const fs::path& path, const fs::path& folder) {
    return std::ranges::mismatch(folder, path).in1 == folder.end();
}

}  // namespace

unsigned denied_modes(const ReadRecord& record, const fs::path& source, const fs::path& out) {
    const auto named = [](const fs::path& folder) { return folder.empty() ? fs::path{"."} : folder; };
    unsigned denied = denied_by(named(source));
    std::set<fs::path> folders;
    for (const auto& [path, file] : record.files()) {
        if (!is_below(path, source)) continue;
        denied |= denied_by(file.mode, false);
        folders.insert(path.parent_path());
    }
    for (const fs::path& folder : folders) denied |= denied_by(named(folder));
    if (path_exists(out)) denied |= denied_by(out);
    if (path_is_directory(out)) {
        for (const fs::path& file : list_files_below(out)) denied |= denied_by(out / file);
    }
    return denied;
}

}  // namespace tpx::cli
