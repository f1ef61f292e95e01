// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

// What exists at a path; links are followed. A path is absent when the system returns ENOENT or ENOTDIR; every other
// error (EACCES, EIO, ELOOP, ...) throws Error "PATH: cause". An I/O error must never change how a checkpoint is read,
// so tpx does not ask std::filesystem what exists.
namespace tpx {

class Error;

/// The Error "PATH: cause" for a value of errno.
Error system_failure(const std::filesystem::path& path, int code);

enum class PathKind { absent, file, directory, other };

PathKind path_kind(const std::filesystem::path& path);

bool path_exists(const std::filesystem::path& path);
bool path_is_file(const std::filesystem::path& path);
bool path_is_directory(const std::filesystem::path& path);

/// Whether there is an entry at `path`, even a dangling link.
bool entry_exists(const std::filesystem::path& path);

/// The names of the entries of a directory, sorted; none when it is absent or not a directory.
std::vector<std::string> list_directory(const std::filesystem::path& directory);

/// The regular files below a directory, as paths relative to it, sorted. Links to files count as files; links to
/// directories are not followed.
std::vector<std::filesystem::path> list_files_below(const std::filesystem::path& directory);

/// Whether `accepts` returns true for any of those files; it is called in their order until it does.
bool any_file_below(const std::filesystem::path& directory,
                    const std::function<bool(const std::filesystem::path&)>& accepts);

/// Creates a directory and its missing parents.
void make_directories(const std::filesystem::path& path);

/// The absolute path without links. Throws when `path` is absent.
std::filesystem::path real_path(const std::filesystem::path& path);

}  // namespace tpx
