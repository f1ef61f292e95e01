// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

// How tpx distinguishes a folder that is being written or removed from a checkpoint: by a marker in the folder, and by
// file names that no framework reads.
namespace tpx {

/// The file that marks a folder as unfinished. Its first line describes the folder.
inline constexpr const char* unfinished_marker = "tpx.unfinished";

/// The name that a file of the output has until all of the output is on disk: `path` with ".partial" appended.
std::filesystem::path unfinished_name(std::filesystem::path path);

/// The unfinished folder that contains `path`: the folder with the marker, which is `path` itself or one of the four
/// folders above it, and the first line of the marker. Nothing if there is no marker. Throws Error if tpx cannot read
/// the folders.
struct UnfinishedFolder {
    std::filesystem::path folder;
    std::string what;
};
std::optional<UnfinishedFolder> find_unfinished(const std::filesystem::path& path);

/// While a ReadUnfinished exists, this process reads `folder` despite its marker: tpx checks an output before renaming
/// it. At most one may exist.
class ReadUnfinished {
public:
    explicit ReadUnfinished(const std::filesystem::path& folder);
    ~ReadUnfinished();
    ReadUnfinished(const ReadUnfinished&) = delete;
    ReadUnfinished& operator=(const ReadUnfinished&) = delete;
};

}  // namespace tpx
