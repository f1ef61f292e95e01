// SPDX-License-Identifier: Apache-2.0
#include "lib/core/unfinished.hpp"

#include "lib/core/file.hpp"
#include "lib/core/path.hpp"

namespace tpx {
namespace {

namespace fs = std::filesystem;

// No format stores files deeper than this below the checkpoint's folder.
constexpr int levels = 4;
constexpr std::uint64_t longest_marker = 16384;

// The folder of ReadUnfinished.
fs::path readable;

std::string first_line(const fs::path& marker) {
    const std::string text = read_file(marker, longest_marker);
    return text.substr(0, text.find('\n'));
}

// `folder`, which contains `path`, spelled as a prefix of `path` if one leads to it.
fs::path as_given(fs::path path, const fs::path& folder) {
    for (; !path.empty() && path != path.parent_path(); path = path.parent_path())
        if (path_is_directory(path) && real_path(path) == folder) return path;
    return folder;
}

}  // namespace

ReadUnfinished::ReadUnfinished(const fs::path& folder) { readable = real_path(folder); }

ReadUnfinished::~ReadUnfinished() { readable.clear(); }

fs::path unfinished_name(fs::path path) { return path += ".partial"; }

std::optional<UnfinishedFolder> find_unfinished(const fs::path& path) {
    const fs::path real = real_path(path);
    fs::path folder = path_is_directory(real) ? real : real.parent_path();
    for (int level = 0; level <= levels; ++level, folder = folder.parent_path()) {
        if (folder == readable) break;
        if (path_is_file(folder / unfinished_marker))
            return UnfinishedFolder{as_given(path, folder), first_line(folder / unfinished_marker)};
        if (folder == folder.parent_path()) break;
    }
    return std::nullopt;
}

}  // namespace tpx
