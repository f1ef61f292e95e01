// SPDX-License-Identifier: Apache-2.0
// embed_rules OUTPUT RULES...: writes C++ source with the texts of the family files and the hashes of the names that
// their rules match, so that tpx reads only the families that can match a checkpoint. Runs when tpx is built.
#include "lib/core/file.hpp"
#include "lib/layout/families.hpp"
#include "lib/layout/family_file.hpp"
#include "lib/layout/matchable_names.hpp"

#include <fmt/ranges.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr std::uint64_t longest_file = 16 << 20;

std::string embedded(std::span<const std::filesystem::path> files) {
    std::vector<std::pair<std::string, std::string>> texts;
    for (const auto& file : files) texts.emplace_back(file.filename().string(), tpx::read_file(file, longest_file));
    std::vector<tpx::FamilySource> sources;
    for (const auto& [name, toml] : texts) sources.push_back({name, toml});
    const tpx::Families families = tpx::parse_families(sources);

    std::string arrays, entries;
    for (std::size_t number = 0; number < sources.size(); ++number) {
        const auto family = families.find(tpx::parse_family_head(sources[number]).own.name);  // none: a fragment
        std::string names = "{}";
        if (family && !families[*family].dialects.empty()) {
            names = fmt::format("names_{}", number);
            arrays += fmt::format("constexpr std::uint32_t {}[] = {{{}}};\n", names,
                                  fmt::join(tpx::hash_rule_names(families[*family]), ", "));
        }
        entries += fmt::format("    BuiltinRules{{\"{}\", R\"toml({})toml\"sv, {}}},\n", sources[number].name,
                               sources[number].toml, names);
    }
    // The suffix sv spares the compiler counting the characters, for which Clang has too few steps.
    return fmt::format(R"(#include "formats/rules/rules.hpp"
namespace tpx::formats {{
namespace {{
using namespace std::string_view_literals;
{}constexpr BuiltinRules files[] = {{
{}}};
}}
std::span<const BuiltinRules> builtin_rules() {{ return files; }}
}}
)",
                       arrays, entries);
}

}  // namespace

int main(int count, char** words) {
    if (count < 3) throw std::invalid_argument{"usage: embed_rules OUTPUT RULES..."};
    const std::vector<std::filesystem::path> files(words + 2, words + count);
    const std::string text = embedded(files);
    std::ofstream out{words[1]};
    if (!(out << text).flush()) throw std::runtime_error{"cannot write " + std::string{words[1]}};
}
