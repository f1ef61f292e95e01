// SPDX-License-Identifier: Apache-2.0
#include "formats/rules/rules.hpp"

#include "lib/core/file.hpp"

#include <string>
#include <utility>
#include <vector>

namespace tpx::formats {

Families load_families(std::span<const std::filesystem::path> files) {
    constexpr std::uint64_t largest_rules_file = 16 << 20;
    std::vector<std::pair<std::string, std::string>> given;
    for (const auto& file : files) given.emplace_back(file.string(), read_file(file, largest_rules_file));
    std::vector<FamilySource> sources;
    for (const BuiltinRules& rules : builtin_rules())
        sources.push_back({rules.source, rules.toml, true, rules.name_hashes});
    for (const auto& [name, toml] : given) sources.push_back({name, toml});
    return parse_families(sources);
}

}  // namespace tpx::formats
