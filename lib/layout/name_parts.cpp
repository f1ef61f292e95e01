// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/name_parts.hpp"

#include <algorithm>
#include <cctype>

namespace tpx {

std::vector<std::string> name_parts(std::string_view name) {
    std::vector<std::string> parts;
    while (true) {
        const std::size_t dot = std::min(name.find('.'), name.size());
        parts.emplace_back(name.substr(0, dot));
        if (dot == name.size()) return parts;
        name.remove_prefix(dot + 1);
    }
}

bool is_number(std::string_view part) {
    return !part.empty() && std::ranges::all_of(part, [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace tpx
