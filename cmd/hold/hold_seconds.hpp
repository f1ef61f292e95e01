// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace tpx::cli {

/// The seconds that `option` sets for a keeper; unset: "none". Throws Error (usage) for other text.
std::optional<int> hold_seconds(const std::string& text, const char* option);

}  // namespace tpx::cli
