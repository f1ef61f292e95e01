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

/// What identifies a regular file, links followed; nothing for other paths and for open descriptors such as
/// /dev/stdout, which are written to, not replaced.
std::optional<FileId> file_id(const std::filesystem::path& path);

/// The absolute path without links of `path`, parts of which may not exist.
std::filesystem::path resolved(const std::filesystem::path& path);

/// Whether `path`, parts of which may not exist yet, is `folder` or inside it, links followed.
bool is_inside(const std::filesystem::path& path, const std::filesystem::path& folder);

/// An option that names a file to write, and that name; an empty one is not written.
struct OutputFile {
    const char* option;
    const std::string& file;
};

/// Throws Error (usage) if one of `outputs` is inside `folder`, which is replaced as a whole.
void check_outside(const std::string& folder, std::initializer_list<OutputFile> outputs);

/// Throws Error (usage) when one of `outputs` is a file that was read since `record` began, whatever it is called, or
/// is the same file as another output. Pipes and devices are no files. Nothing is changed.
void check_outputs_apart(std::initializer_list<OutputFile> outputs, const ReadRecord& record);

}  // namespace tpx::cli
