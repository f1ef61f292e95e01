// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/read_record.hpp"

#include <sys/types.h>

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

namespace tpx::cli {

using FileId = std::pair<dev_t, ino_t>;

/// Identifies a regular file, after following symbolic links. Nothing for other files, and for open descriptors such as
/// /dev/stdout, which are written to, not replaced.
std::optional<FileId> file_id(const std::filesystem::path& path);

/// `path` as an absolute path without symbolic links; parts of it may not exist.
std::filesystem::path resolved(const std::filesystem::path& path);

/// Whether `path`, parts of which may not exist yet, is `folder` or inside it, after resolving symbolic links.
bool is_inside(const std::filesystem::path& path, const std::filesystem::path& folder);

/// An option that names an output file, and the file's name; if the name is empty, nothing is written.
struct OutputFile {
    const char* option;
    const std::string& file;
};

/// Throws Error (usage) if one of `outputs` is inside `folder`, which is replaced as a whole.
void check_outside(const std::string& folder, std::initializer_list<OutputFile> outputs);

/// Throws Error (usage) if one of `outputs` is a file that was read since `record` began, under whatever name, or is
/// the same file as another output. Ignores pipes and devices. Changes nothing.
void check_outputs_apart(std::initializer_list<OutputFile> outputs, const ReadRecord& record);

}  // namespace tpx::cli
