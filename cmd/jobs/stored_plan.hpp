// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"
#include "formats/files/plan/plan_file.hpp"

#include <filesystem>

namespace tpx::cli {

/// Reads a plan to execute it. Throws Error (usage) if it was not made for a checkpoint, and Error (no) if its moves do
/// not cover the target exactly once.
formats::PlanFile read_plan_to_run(const std::filesystem::path& file);

/// The target of the conversion in `plan`.
formats::Target target_of(const formats::PlanFile& plan);

/// Throws Error (no) if `plan`, read from `file`, was made for a checkpoint other than `source`.
void check_source(const formats::FileChange& plan, const std::filesystem::path& file, const formats::Source& source);

/// Throws Error (no), with the first difference, if the plan has other tensors, files or pieces than `conversion`,
/// which was made with the same settings.
void check_conversion(const formats::FileChange& plan, const std::filesystem::path& file,
                      const formats::Conversion& conversion, const formats::Source& source);

}  // namespace tpx::cli
