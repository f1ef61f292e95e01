// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// Parses GPUs per host: "8", "8+8+4", or "4x8" for four hosts of eight. Throws Error (usage) for anything else.
std::vector<int> parse_placement(std::string_view text);

/// "8+8+4", or "4x8" if all hosts have the same number.
std::string placement_text(const std::vector<int>& gpus);

}  // namespace tpx::formats
