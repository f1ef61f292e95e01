// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cmd/planning.hpp"
#include "lib/core/read_record.hpp"

#include <initializer_list>
#include <string>

namespace tpx::cli {

/// The absolute path without links of `path`, parts of which may not exist.
std::filesystem::path resolved(const std::filesystem::path& path);

/// Throws Error (usage) for a file that `options` ask to write over something that is read: a file of the checkpoint's
/// folder, or one that an option names; and for a plan in the place of a file that is no plan. Pipes and devices are
/// no files. Nothing is changed.
void check_output_files(const PlanOptions& options, const PlanReport& report);

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
