// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

// How a folder that is being written, or removed, is told from a checkpoint: by a marker in it, and by the names of its
// files, which no framework reads.
namespace tpx {

/// The file that marks a folder as unfinished. Its first line says what the folder is.
inline constexpr const char* unfinished_marker = "tpx.unfinished";

/// The name that a file of the output has until all of the output is on disk: `path` with ".partial" appended.
std::filesystem::path unfinished_name(std::filesystem::path path);

/// What is unfinished about `path`: the folder with the marker, which is `path` itself or one of the four folders above
/// it, and the first line of the marker. Nothing when there is no marker. Throws Error when that cannot be told.
struct Unfinished {
    std::filesystem::path folder;
    std::string what;
};
std::optional<Unfinished> find_unfinished(const std::filesystem::path& path);

/// While it lives, this process reads `folder` in spite of its marker: who writes an output looks at it before it gets
/// its name. At most one may live.
class ReadUnfinished {
public:
    explicit ReadUnfinished(const std::filesystem::path& folder);
    ~ReadUnfinished();
    ReadUnfinished(const ReadUnfinished&) = delete;
    ReadUnfinished& operator=(const ReadUnfinished&) = delete;
};

}  // namespace tpx
