// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/error.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tpx::formats {

/// Parses TOML `text`. Throws Error (usage) "FILE:LINE: cause" if it is not TOML.
toml::table parse_toml_text(std::string_view text, std::string_view file);

/// An Error (usage) "FILE:LINE: cause" about `node`.
template <class... Args>
Error toml_error(const toml::node& node, std::string_view file, fmt::format_string<Args...> format, Args&&... args) {
    Error error{Exit::usage, format, std::forward<Args>(args)...};
    error.prepend(fmt::format("{}:{}", file, node.source().begin.line));
    return error;
}

/// The text of `node`. Throws a toml_error() if `node` is not text, or is empty.
std::string text_of(const toml::node& node, std::string_view file);

/// A TOML string that represents `text`; bytes that are not UTF-8 become U+FFFD.
std::string toml_string(std::string_view text);

/// The whole number in `node`. Throws a toml_error() unless `node` is a whole number from `least` to `most`.
int integer_of(const toml::node& node, std::string_view file, std::int64_t least, std::int64_t most);

}  // namespace tpx::formats
