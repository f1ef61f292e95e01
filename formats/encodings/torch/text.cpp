// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/text.hpp"

#include "lib/core/error.hpp"

#include <charconv>
#include <cstring>

namespace tpx::torch {
namespace {

/// The length in bytes of the UTF-8 sequence at the start of `text`; 0 if there is none.
std::size_t utf8_length(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const std::size_t length = byte(0) < 0x80 ? 1 : byte(0) < 0xc2 ? 0 : byte(0) < 0xe0 ? 2 : byte(0) < 0xf0 ? 3 : 4;
    if (length == 0 || byte(0) > 0xf4 || text.size() < length) return 0;
    for (std::size_t i = 1; i < length; ++i)
        if ((byte(i) & 0xc0) != 0x80) return 0;
    const bool overlong = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
    return overlong || (byte(0) == 0xf4 && byte(1) > 0x8f) ? 0 : length;
}

/// Reads `digits` digits of `base` at `text[at]` and moves `at` past them.
std::uint32_t code_at(std::string_view text, std::size_t& at, std::size_t digits, int base) {
    const std::string_view field = text.substr(at, digits);
    std::uint32_t code = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), code, base);
    if (error != std::errc{} || end != field.data() + digits || code > 0x10ffff)
        throw failure("malformed escape in a string");
    at += digits;
    return code;
}

char simple_escape(char letter) {
    constexpr std::string_view letters = "\\'\"abfnrtv";
    constexpr std::string_view meanings = "\\'\"\a\b\f\n\r\t\v";
    const auto found = letters.find(letter);
    if (found == letters.npos) throw failure("malformed escape in a string");
    return meanings[found];
}

}  // namespace

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        std::uint64_t word = 0;
        while (text.size() >= sizeof word) {
            std::memcpy(&word, text.data(), sizeof word);
            if ((word & 0x8080808080808080) != 0) break;
            text.remove_prefix(sizeof word);
        }
        if (text.empty()) return true;
        const std::size_t length = utf8_length(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

std::string_view reject_name(std::string_view name) { return is_utf8(name) ? "" : "has a name that is not UTF-8"; }

void append_utf8(std::string& text, std::uint32_t code) {
    const auto tail = [&](int shift) { text.push_back(static_cast<char>(0x80 | ((code >> shift) & 0x3f))); };
    if (code < 0x80) return text.push_back(static_cast<char>(code));
    if (code < 0x800) {
        text.push_back(static_cast<char>(0xc0 | (code >> 6)));
    } else if (code < 0x10000) {
        text.push_back(static_cast<char>(0xe0 | (code >> 12)));
        tail(6);
    } else {
        text.push_back(static_cast<char>(0xf0 | (code >> 18)));
        tail(12);
        tail(6);
    }
    tail(0);
}

std::string latin1_to_utf8(std::string_view bytes) {
    std::string text;
    text.reserve(bytes.size() + bytes.size() / 2);
    for (const char byte : bytes) append_utf8(text, static_cast<unsigned char>(byte));
    return text;
}

std::optional<std::string> utf8_to_latin1(std::string_view text) {
    std::string bytes;
    bytes.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto lead = static_cast<unsigned char>(text[i]);
        if (lead < 0x80) {
            bytes.push_back(text[i]);
        } else {
            if ((lead != 0xc2 && lead != 0xc3) || i + 1 == text.size()) return std::nullopt;
            bytes.push_back(static_cast<char>(((lead & 3) << 6) | (text[++i] & 0x3f)));
        }
    }
    return bytes;
}

std::string unescape_quoted(std::string_view line) {
    if (line.size() < 2 || line.front() != line.back() || (line.front() != '\'' && line.front() != '"'))
        throw failure("a string without quotes");
    line = line.substr(1, line.size() - 2);
    std::string text;
    for (std::size_t i = 0; i < line.size();) {
        if (line[i] != '\\') {
            text.push_back(line[i++]);
            continue;
        }
        if (++i == line.size()) throw failure("malformed escape in a string");
        if (line[i] == 'x')
            text.push_back(static_cast<char>(code_at(line, ++i, 2, 16)));
        else if ('0' <= line[i] && line[i] <= '3')
            text.push_back(static_cast<char>(code_at(line, i, 3, 8)));
        else
            text.push_back(simple_escape(line[i++]));
    }
    return text;
}

std::string unescape_unicode(std::string_view line) {
    std::string text;
    for (std::size_t i = 0; i < line.size();) {
        const bool escape = line[i] == '\\' && i + 1 < line.size() && (line[i + 1] == 'u' || line[i + 1] == 'U');
        if (!escape) {
            append_utf8(text, static_cast<unsigned char>(line[i++]));
            continue;
        }
        const std::size_t digits = line[i + 1] == 'u' ? 4 : 8;
        i += 2;
        append_utf8(text, code_at(line, i, digits, 16));
    }
    return text;
}

std::string two_complement(std::string_view decimal) {
    constexpr std::size_t most_digits = 1000;  // the conversion is quadratic
    const bool negative = decimal.starts_with('-');
    if (negative) decimal.remove_prefix(1);
    if (decimal.empty() || decimal.size() > most_digits || decimal.find_first_not_of("0123456789") != decimal.npos)
        throw failure("malformed int of {} digits", decimal.size());
    std::string bytes(1, '\0');
    for (const char digit : decimal) {
        unsigned carry = static_cast<unsigned>(digit - '0');
        for (char& byte : bytes) {
            carry += static_cast<unsigned char>(byte) * 10u;
            byte = static_cast<char>(carry & 0xff);
            carry >>= 8;
        }
        if (carry != 0) bytes.push_back(static_cast<char>(carry));
    }
    if ((bytes.back() & 0x80) != 0) bytes.push_back('\0');
    unsigned carry = 1;
    if (negative)
        for (char& byte : bytes) {
            carry += static_cast<unsigned char>(~byte);
            byte = static_cast<char>(carry & 0xff);
            carry >>= 8;
        }
    return bytes;
}

}  // namespace tpx::torch
