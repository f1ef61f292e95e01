// SPDX-License-Identifier: Apache-2.0
#include "formats/toml_text.hpp"

#include "lib/core/error.hpp"

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

}  // namespace tpx::formats
