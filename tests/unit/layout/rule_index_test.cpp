// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/rule_index.hpp"

#include "formats/rules/rules.hpp"
#include "lib/layout/notation.hpp"

#include <doctest/doctest.h>

#include <random>

namespace tpx {
namespace {

// Names that rules make, and variants with a part removed, doubled or renumbered.
std::vector<std::string> names_around(const Families& families, std::mt19937& random) {
    std::vector<std::string> names{"", "#", "1", "a1b2", "optimizer.state.3.exp_avg"};
    for (const Family& family : families) {
        for (const Dialect& dialect : family.dialects) {
            for (const Rule& rule : dialect.rules)
                for (const std::string& folded : rule.name.folded()) names.push_back(folded);
            for (const std::string& extra : dialect.extra) names.push_back(extra);
            for (const RolePattern& role : dialect.roles) names.push_back(role.pattern);
        }
    }
    for (std::string& name : names) {
        for (std::size_t at; (at = name.find_first_of("#*")) != name.npos;) {
            static const char* const words[] = {"7", "12", "x", "0.3", ""};
            name.replace(at, 1, words[random() % (name[at] == '#' ? 2 : 5)]);
        }
        if (!name.empty() && random() % 4 == 0) name.erase(random() % name.size(), 1 + random() % 3);
        if (random() % 8 == 0) name = "exp_avg." + name;
    }
    return names;
}

TEST_CASE("if a rule book rules out a folded name, it knows no name that folds to it") {
    std::mt19937 random{5};
    const Families families = formats::load_families({});
    std::vector<std::pair<std::string, std::string>> names;  // and folded ones
    for (std::string& name : names_around(families, random)) {
        std::string folded = fold_numbers(name);
        names.emplace_back(std::move(name), std::move(folded));
    }
    REQUIRE(names.size() > 500);
    std::size_t known = 0, unheard = 0;
    for (const Family& family : families) {
        for (const Dialect& dialect : family.dialects) {
            const RuleIndex index{dialect};
            for (const auto& [name, folded] : names) {
                const bool may_match = index.may_match(folded);
                ++(may_match ? known : unheard);
                if (may_match || index.meaning_of(name, folded).kind == Meaning::Kind::unknown) continue;
                INFO(name);
                CHECK(false);
            }
        }
    }
    CHECK(known > 500);
    CHECK(unheard > 500);
}

TEST_CASE("names that differ only in numbers share one folded name") {
    const std::vector<Tensor> tensors{{.name = "a.1.b"}, {.name = "a.22.b"}, {.name = "a.b"}};
    const FoldedNames names{tensors};
    CHECK(names.distinct == std::vector<std::string>{"a.#.b", "a.b"});
    CHECK(names.of == std::vector<std::uint32_t>{0, 0, 1});
}

TEST_CASE("Megatron's names may have the prefix of NeMo's model object") {
    const Families families = formats::load_families({});
    const Family& llama = families[families.find("llama").value()];
    const auto means = [&](const char* dialect, std::string_view name) {
        const RuleIndex index{*llama.dialect(dialect)};
        const std::string folded = fold_numbers(name);
        CHECK(index.may_match(folded) == (index.meaning_of(name, folded).kind != Meaning::Kind::unknown));
        return index.meaning_of(name, folded);
    };
    for (const std::string holder : {"", "module.", "model."}) {
        const Meaning weight = means("mcore", holder + "decoder.layers.3.self_attention.linear_proj.weight");
        REQUIRE(weight.kind == Meaning::Kind::parameter);
        CHECK(weight.rule->expression.parts == std::vector<std::string>{"o"});
        CHECK(weight.indices.layer == 3);
        const Meaning moment = means("mcore", "optimizer.state.exp_avg." + holder + "output_layer.weight");
        CHECK(moment.kind == Meaning::Kind::parameter);
        CHECK(moment.role == Role::exp_avg);
    }
    CHECK(means("mcore", "modules.output_layer.weight").kind == Meaning::Kind::unknown);
    CHECK(means("mcore", "module.module.output_layer.weight").kind == Meaning::Kind::unknown);
    CHECK(means("hf", "module.lm_head.weight").kind == Meaning::Kind::unknown);
}

}  // namespace
}  // namespace tpx
