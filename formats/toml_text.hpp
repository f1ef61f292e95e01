// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <toml++/toml.h>

#include <string_view>

namespace tpx::formats {

/// The table that TOML `text` is. Throws Error (usage) "FILE:LINE: cause" when it is none.
toml::table parse_toml_text(std::string_view text, std::string_view file);

}  // namespace tpx::formats
