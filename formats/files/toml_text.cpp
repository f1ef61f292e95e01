// SPDX-License-Identifier: Apache-2.0
#include "formats/files/toml_text.hpp"

#include <nlohmann/json.hpp>

namespace tpx::formats {

toml::table parse_toml_text(std::string_view text, std::string_view file) {
    try {
        return toml::parse(text, file);
    } catch (const toml::parse_error& error) {
        Error mistake{Exit::usage, "{}", error.description()};
        mistake.prepend(fmt::format("{}:{}", file, error.source().begin.line));
        throw mistake;
    }
}

std::string text_of(const toml::node& node, std::string_view file) {
    const auto value = node.value_exact<std::string>();
    if (!value || value->empty()) throw toml_error(node, file, "text was expected");
    return *value;
}

std::string toml_string(std::string_view text) {
    // JSON strings are TOML strings, except for one character that JSON does not escape.
    std::string out = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    for (std::size_t at = 0; (at = out.find('\x7f', at)) != out.npos;) out.replace(at, 1, "\\u007f");
    return out;
}

int integer_of(const toml::node& node, std::string_view file, std::int64_t least, std::int64_t most) {
    const auto value = node.value_exact<std::int64_t>();
    if (!value || *value < least || *value > most)
        throw toml_error(node, file, "a whole number from {} to {} was expected", least, most);
    return static_cast<int>(*value);
}

}  // namespace tpx::formats
