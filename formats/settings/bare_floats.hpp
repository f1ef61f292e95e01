// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace tpx::formats {

/// The key of the objects that replace NaN, Infinity and -Infinity, which Python writes without quotes although JSON
/// has no such values.
inline constexpr std::string_view bare_float_key = "__bare_float__";

/// The key that transformers 5 uses for the same values.
inline constexpr std::string_view float_key = "__float__";

/// JSON as Python writes it, with {"__bare_float__": "Infinity"} in place of Infinity, so that it is valid JSON.
std::string quote_bare_floats(std::string_view json);

/// JSON as Python writes it, with null in place of NaN, Infinity and -Infinity.
std::string strict_json(std::string_view json);

/// Restores what quote_bare_floats() has replaced; the JSON may have been indented since.
std::string restore_bare_floats(std::string json);

}  // namespace tpx::formats
