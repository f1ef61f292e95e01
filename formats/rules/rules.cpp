// SPDX-License-Identifier: Apache-2.0
#include "formats/rules/rules.hpp"

#include "lib/core/file.hpp"

#include <algorithm>

namespace tpx::formats {

std::vector<Family> load_families(std::span<const std::filesystem::path> files) {
    constexpr std::uint64_t largest_rules_file = 16 << 20;
    std::vector<Family> families;
    const auto add = [&](Family family) {
        std::erase_if(families, [&](const Family& old) { return old.name == family.name; });
        families.push_back(std::move(family));
    };
    for (const BuiltinRules& rules : builtin_rules()) add(parse_family(rules.toml, rules.source));
    for (const auto& file : files) add(parse_family(read_file(file, largest_rules_file), file.string()));
    return families;
}

}  // namespace tpx::formats
