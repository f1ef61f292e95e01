// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

// What is at a path, links followed. A path is absent when the system says ENOENT or ENOTDIR; every other error
// (EACCES, EIO, ELOOP, ...) throws Error "PATH: cause". A checkpoint must never be read differently because of an I/O
// error, so that nothing else in tpx asks std::filesystem for what exists.
namespace tpx {

class Error;

/// The Error "PATH: cause" for a value of errno.
Error system_failure(const std::filesystem::path& path, int code);

enum class PathKind { absent, file, directory, other };

PathKind path_kind(const std::filesystem::path& path);

bool path_exists(const std::filesystem::path& path);
bool path_is_file(const std::filesystem::path& path);
bool path_is_directory(const std::filesystem::path& path);

/// Whether there is an entry at `path`, be it a link that leads nowhere.
bool entry_exists(const std::filesystem::path& path);

/// The names of the entries of a directory, sorted; none when it is absent or no directory.
std::vector<std::string> list_directory(const std::filesystem::path& directory);

/// The regular files below a directory, as paths relative to it, sorted. Links to files count as files; links to
/// directories are not followed.
std::vector<std::filesystem::path> list_files_below(const std::filesystem::path& directory);

/// Whether `accepts` is true of any of those files; it is called in their order until it is.
bool any_file_below(const std::filesystem::path& directory,
                    const std::function<bool(const std::filesystem::path&)>& accepts);

/// Makes a directory and those above it that are absent.
void make_directories(const std::filesystem::path& path);

/// The absolute path without links. Throws when it is absent.
std::filesystem::path real_path(const std::filesystem::path& path);

}  // namespace tpx
