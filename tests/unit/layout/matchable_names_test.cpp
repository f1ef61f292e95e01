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

/// The rules of all dialects of a family.
std::vector<RuleIndex> indices_of(const Family& family) { return {family.dialects.begin(), family.dialects.end()}; }

bool is_parameter(const std::vector<RuleIndex>& indices, const std::string& name, const std::string& folded) {
    return std::ranges::any_of(indices, [&](const RuleIndex& index) {
        return index.meaning_of(name, folded).kind == Meaning::Kind::parameter;
    });
}

MatchableNames matchable(const std::string& folded) { return MatchableNames{std::array{folded}}; }

/// Stored forms of `name`: as a weight, below an object that contains the model, as optimizer state, and misspelled.
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
    struct Stored {
        std::string name, folded;
        MatchableNames parts;
    };
    std::vector<Stored> all;
    for (const std::string& name : names_of(families))
        all.push_back({name, fold_numbers(name), matchable(fold_numbers(name))});
    std::size_t skipped = 0, matched = 0;
    for (std::size_t number = 0; number < families.size(); ++number) {
        REQUIRE_FALSE(families.head(number).name_hashes.empty());
        const std::vector<RuleIndex> indices = indices_of(families[number]);
        for (const Stored& stored : all) {
            const bool may_match = families.head(number).may_match(stored.parts);
            ++(may_match ? matched : skipped);
            if (may_match || !is_parameter(indices, stored.name, stored.folded)) continue;
            INFO(stored.name, " ", families.head(number).name);
            CHECK(false);
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
