// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/matchable_names.hpp"

#include "formats/rules/rules.hpp"
#include "lib/layout/notation.hpp"
#include "lib/layout/rule_index.hpp"
#include "tests/support/scratch_folder.hpp"

#include <doctest/doctest.h>

#include <array>
#include <fstream>
#include <set>

namespace tpx {
namespace {

bool is_parameter(const Family& family, const std::string& folded) {
    return std::ranges::any_of(family.dialects, [&](const Dialect& dialect) {
        return RuleIndex{dialect}.meaning_of(folded, folded).kind == Meaning::Kind::parameter;
    });
}

MatchableNames matchable(const std::string& folded) { return MatchableNames{std::array{folded}}; }

/// `name` as it is stored for weights and optimizer state, in the objects of frameworks, and misspelled.
std::vector<std::string> forms_of(const std::string& name, const Dialect& dialect) {
    std::vector<std::string> forms{name, "module." + name, "model." + name, "x" + name, name + ".weight"};
    for (const auto roles : {torch_roles(), std::span<const RolePattern>{dialect.roles}})
        for (const RolePattern& role : roles)
            forms.push_back(std::string{role.pattern}.replace(role.pattern.find('*'), 1, name));
    return forms;
}

std::set<std::string> names_of(const Families& families) {
    std::set<std::string> names;
    std::size_t count = 0;
    for (const Family& family : families) {
        for (const Dialect& dialect : family.dialects) {
            for (const Rule& rule : dialect.rules) {
                if (++count % 7 != 0) continue;
                for (std::string name : rule.name.folded()) {
                    for (std::size_t at; (at = name.find('#')) != name.npos;) name.replace(at, 1, "7");
                    const std::vector<std::string> forms = forms_of(name, dialect);
                    names.insert(forms[count / 7 % forms.size()]);
                }
            }
        }
    }
    return names;
}

TEST_CASE("families are skipped only if their rules match no name") {
    const Families families = formats::load_families({});
    std::size_t skipped = 0, matched = 0;
    for (const std::string& name : names_of(families)) {
        const MatchableNames stored = matchable(fold_numbers(name));
        for (std::size_t number = 0; number < families.size(); ++number) {
            REQUIRE_FALSE(families.head(number).name_hashes.empty());
            if (families.head(number).may_match(stored)) {
                ++matched;
                continue;
            }
            ++skipped;
            INFO(name, " ", families.head(number).name);
            CHECK_FALSE(is_parameter(families[number], name));
        }
    }
    CHECK(matched > 1000);
    CHECK(skipped > 10000);
}

TEST_CASE("the built-in hashes are those of the rules") {
    const Families families = formats::load_families({});
    for (std::size_t number = 0; number < families.size(); ++number)
        CHECK(std::ranges::equal(families.head(number).name_hashes, hash_rule_names(families[number])));
}

TEST_CASE("families that a user's file may change are never skipped") {
    const test::ScratchFolder folder;
    std::ofstream{folder.path() / "llama.toml"}
        << "family = 'llama'\nextends = ['llama']\n[dialects.hf]\nrules = [['mine', 'norm']]\n";
    const Families families = formats::load_families(std::array{folder.path() / "llama.toml"});
    const MatchableNames stored = matchable("mine");
    CHECK(families.head(families.find("llama").value()).may_match(stored));
    CHECK_FALSE(families.head(families.find("gpt2").value()).may_match(stored));
}

}  // namespace
}  // namespace tpx
