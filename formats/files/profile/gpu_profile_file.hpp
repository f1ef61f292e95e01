// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/hetero.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// The points of an offline profile: a batch size and examples per second a line, blanks or a comma between them; lines
/// that are empty or begin with # are skipped. Throws Error "FILE:LINE: cause" for anything else, and when there is
/// none.
std::vector<GpuProfile::Point> parse_gpu_profile(std::string_view text, std::string_view file);

/// The file that trainers and migrations read: TOML with the batch, the seconds of a step and a table for each kind of
/// GPU.
std::string assignment_text(std::span<const GpuProfile> profiles, const HeteroAssignment& assignment);

}  // namespace tpx::formats
