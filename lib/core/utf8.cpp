// SPDX-License-Identifier: Apache-2.0
#include "lib/core/utf8.hpp"

namespace tpx {

std::optional<char32_t> next_code_point(std::string_view text, std::size_t& at) {
    const auto first = static_cast<unsigned char>(text[at]);
    if (first < 0x80) return static_cast<char32_t>(text[at++]);
    const std::size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4 || text.size() - at <= more) return std::nullopt;
    char32_t code = first & (0x3f >> more);
    for (std::size_t k = 1; k <= more; ++k) {
        const auto next = static_cast<unsigned char>(text[at + k]);
        if ((next & 0xc0) != 0x80) return std::nullopt;
        code = code << 6 | (next & 0x3f);
    }
    const bool overlong = code < (more == 2 ? 0x800u : more == 3 ? 0x10000u : 0x80u);
    if (overlong || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) return std::nullopt;
    at += more + 1;
    return code;
}

bool is_valid_utf8(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        if (!next_code_point(text, at)) return false;
    }
    return true;
}

}  // namespace tpx
