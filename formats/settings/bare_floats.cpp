// SPDX-License-Identifier: Apache-2.0
#include "formats/settings/bare_floats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tpx::formats {
namespace {

/// The value without quotes at the start of `text`; empty if there is none.
std::string_view bare_float_at(std::string_view text) {
    constexpr std::array<std::string_view, 3> words{"NaN", "Infinity", "-Infinity"};
    for (const std::string_view word : words)
        if (text.starts_with(word)) return word;
    return {};
}

/// The position after the string that begins with the quote at `at`.
std::size_t end_of_string(std::string_view json, std::size_t at) {
    for (++at; at < json.size() && json[at] != '"'; ++at)
        if (json[at] == '\\') ++at;
    return at + 1;
}

/// `json` with `replacement(word)` in place of each value without quotes.
std::string replace_bare_floats(std::string_view json, auto&& replacement) {
    if (json.find("NaN") == json.npos && json.find("Infinity") == json.npos) return std::string{json};
    std::string replaced;
    std::size_t copied = 0;
    for (std::size_t at = 0; at < json.size();) {
        if (json[at] == '"') {
            at = end_of_string(json, at);
            continue;
        }
        const std::string_view word = bare_float_at(json.substr(at));
        if (!word.empty()) {
            replaced += json.substr(copied, at - copied);
            replaced += replacement(word);
            copied = at + word.size();
        }
        at += std::max<std::size_t>(1, word.size());
    }
    return replaced += json.substr(copied);
}

}  // namespace

std::string quote_bare_floats(std::string_view json) {
    return replace_bare_floats(
        json, [](std::string_view word) { return fmt::format("{{\"{}\": \"{}\"}}", bare_float_key, word); });
}

std::string strict_json(std::string_view json) {
    return replace_bare_floats(json, [](std::string_view) { return "null"; });
}

std::string restore_bare_floats(std::string json) {
    for (std::size_t at = 0; (at = json.find(bare_float_key, at)) != json.npos;) {
        const std::size_t begin = json.rfind('{', at), end = json.find('}', at);
        if (begin == json.npos || end == json.npos) break;
        const std::size_t colon = json.find(':', at);
        const std::size_t first = json.find('"', colon) + 1;
        const std::string word = json.substr(first, json.find('"', first) - first);
        json.replace(begin, end + 1 - begin, word);
        at = begin + word.size();
    }
    return json;
}

}  // namespace tpx::formats
