// SPDX-License-Identifier: Apache-2.0
#include "formats/toml_text.hpp"

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
    if (!value || value->empty()) throw mistake(node, file, "text was expected");
    return *value;
}

int whole_of(const toml::node& node, std::string_view file, std::int64_t least, std::int64_t most) {
    const auto value = node.value_exact<std::int64_t>();
    if (!value || *value < least || *value > most)
        throw mistake(node, file, "a whole number from {} to {} was expected", least, most);
    return static_cast<int>(*value);
}

}  // namespace tpx::formats
