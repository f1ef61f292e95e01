// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cmd/planning.hpp"
#include "lib/core/read_record.hpp"

#include <initializer_list>
#include <string>

namespace tpx::cli {

/// `path` as an absolute path without symbolic links; parts of it may not exist.
std::filesystem::path resolved(const std::filesystem::path& path);

/// Throws Error (usage) if an output file of `options` would overwrite an input: a file in the checkpoint's folder, or
/// one that another option names; also if --output would overwrite a file that is not a plan. Ignores pipes and
/// devices. Changes nothing.
void check_output_files(const PlanOptions& options, const PlanReport& report);

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
