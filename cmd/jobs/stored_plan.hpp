// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"
#include "formats/files/plan/plan_file.hpp"

#include <filesystem>

namespace tpx::cli {

/// Reads a plan to carry it out. Throws Error (usage) when it was made for no checkpoint, Error (no) when its moves do
/// not cover the target exactly once.
formats::PlanFile read_plan_to_run(const std::filesystem::path& file);

/// What the plan asks to make of its checkpoint.
formats::Target target_of(const formats::PlanFile& plan);

/// Throws Error (no) when `plan`, read from `file`, was made for another checkpoint than `source`.
void check_source(const formats::FileChange& plan, const std::filesystem::path& file, const formats::Source& source);

/// Throws Error (no), with the first difference, when the plan was made of other tensors, files or pieces than
/// `conversion`, which repeats its settings.
void check_conversion(const formats::FileChange& plan, const std::filesystem::path& file,
                      const formats::Conversion& conversion, const formats::Source& source);

}  // namespace tpx::cli
