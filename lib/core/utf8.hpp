// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace tpx {

/// The code point that starts at byte `at` of `text`; moves `at` past it. Nothing, with `at` unchanged, if the bytes
/// are not UTF-8: a stray or missing continuation byte, an overlong form, a surrogate or a number above U+10FFFF.
std::optional<char32_t> next_code_point(std::string_view text, std::size_t& at);

/// Whether all of `text` is UTF-8.
bool is_valid_utf8(std::string_view text);

}  // namespace tpx
