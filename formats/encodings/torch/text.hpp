// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tpx::torch {

/// Whether `text` is UTF-8 as Python's surrogatepass reads it: lone surrogates may be encoded too.
bool is_utf8(std::string_view text);

/// Why a pickle cannot contain `name`; empty when it can.
std::string_view reject_name(std::string_view name);

/// Appends code point `code` as UTF-8. Precondition: code <= 0x10ffff.
void append_utf8(std::string& text, std::uint32_t code);

/// Bytes to text, code point by byte; and back, which has no value when a code point exceeds 255.
std::string latin1_to_utf8(std::string_view bytes);
std::optional<std::string> utf8_to_latin1(std::string_view text);

/// A string as pickle's opcodes STRING (quoted, as Python 2 printed it) and UNICODE (raw-unicode-escape) hold it.
/// Throws Error when it is malformed.
std::string unescape_quoted(std::string_view line);
std::string unescape_unicode(std::string_view line);

/// A decimal integer as little-endian two's complement, as short as it goes. Throws Error when it is none, or has more
/// than 1000 digits.
std::string two_complement(std::string_view decimal);

}  // namespace tpx::torch
