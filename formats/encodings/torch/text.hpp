// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tpx::torch {

/// Whether `text` is UTF-8 as Python's surrogatepass reads it: encoded lone surrogates are allowed.
bool is_utf8(std::string_view text);

/// Why a pickle cannot contain `name`; empty when it can.
std::string_view reject_name(std::string_view name);

/// Appends code point `code` as UTF-8. Precondition: code <= 0x10ffff.
void append_utf8(std::string& text, std::uint32_t code);

/// Converts bytes to text, one code point per byte; and back, which fails (unset) if a code point exceeds 255.
std::string latin1_to_utf8(std::string_view bytes);
std::optional<std::string> utf8_to_latin1(std::string_view text);

/// The string in the argument of pickle's opcodes STRING (quoted, as Python 2 printed it) and UNICODE
/// (raw-unicode-escape). Throws Error if the argument is malformed.
std::string unescape_quoted(std::string_view line);
std::string unescape_unicode(std::string_view line);

/// A decimal integer as little-endian two's complement. Throws Error if `decimal` is not an integer or has more than
/// 1000 digits.
std::string two_complement(std::string_view decimal);

}  // namespace tpx::torch
