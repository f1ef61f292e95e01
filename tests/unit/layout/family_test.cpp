// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/families.hpp"

#include "formats/rules/rules.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/dims.hpp"
#include "lib/layout/reading.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>

using namespace tpx;

namespace {

constexpr std::string_view base_family = R"(
family = "base"
detect.hf = ["base"]
[dims]
h = { hf = "hidden_size" }
f = { hf = "ffn" }
[config.hf]
model_type = "'base'"
layers = "l"
[needed.hf]
eps = "1e-06"
theta = "10000"
[tensors]
norm = "l h"
up = "l f h ; tp=f"
extra = "h ; last opt"
[dialects.hf]
layer = "layers.{l}"
rules = [[".norm", "norm"], [".up", "up"], ["extra", "extra"]]
[dialects.mcore]
layer = "blocks.{l?}"
rules = [[".norm", "norm"], [".up", "up"]]
)";

Families with(std::string_view more) {
    return parse_families(std::array{FamilySource{"more.toml", more}, FamilySource{"base.toml", base_family}});
}

std::string family_refusal(std::string_view more) {
    try {
        with(more);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

std::vector<std::string> names(const Dialect& dialect) {
    std::vector<std::string> all;
    for (const Rule& rule : dialect.rules) all.push_back(rule.name.text());
    return all;
}

}  // namespace

TEST_CASE("a family inherits from the families it extends, and adds, replaces and removes entries") {
    const Families families = with(R"(
        family = "more"
        extends = ["base"]
        detect.hf = ["more"]
        remove = ["extra"]
        without = ["mcore"]
        [dims]
        f = { hf = "width" }
        e = { hf = "experts" }
        [config.hf]
        model_type = "'more'"
        [needed.hf]
        eps = ""
        theta = "500000"
        [tensors]
        w = "l e f h ; ep=e tp=f opt"
        a = "l h ; tp=h@local opt"
        embed = "h ; first mtp opt"
        [dialects.hf]
        layer = ["[model.]layers.{l<L}", "mtp.{l-L}"]
        bare = true
        rules = [[".up", "up -> h f"], [".experts.{e}", "w", "seq te+up"]])");
    REQUIRE(families.size() == 2);
    const Family& more = families[0].name == "more" ? families[0] : families[1];
    CHECK(more.detect.at("hf") == std::vector<std::string>{"more"});
    CHECK(more.dims.at('f').at("hf") == "width");
    CHECK(more.dims.at('h').at("hf") == "hidden_size");
    CHECK_FALSE(more.tensors.contains("extra"));
    CHECK(more.tensor("w").ep == 'e');
    CHECK(more.tensor("w").is_index('e'));
    CHECK_FALSE(more.tensor("up").is_index('e'));
    CHECK(more.tensor("a").local_tp == 'h');
    CHECK(more.tensor("a").tp == 0);
    CHECK(more.tensor("embed").mtp);
    CHECK_FALSE(more.dialect("mcore"));
    const Dialect& hf = *more.dialect("hf");
    CHECK(hf.bare);
    CHECK(names(hf) == std::vector<std::string>{"[model.]layers.{l<L}.norm", "mtp.{l-L}.norm",
                                                "[model.]layers.{l<L}.up", "mtp.{l-L}.up",
                                                "[model.]layers.{l<L}.experts.{e}", "mtp.{l-L}.experts.{e}"});
    CHECK_FALSE(hf.rules[2].expression.axes.empty());
    CHECK(hf.rules[4].tags == std::vector<std::string>{"seq", "te+up"});
    const auto& config = more.config.at("hf");
    CHECK(std::ranges::find(config, "model_type", &ConfigEntry::key)->formula == "'more'");
    CHECK(config.size() == 2);
    CHECK(more.needed.at("hf") == std::map<std::string, std::string>{{"theta", "500000"}});
}

TEST_CASE("a file can extend the built-in family of the same name; fragments are not families") {
    const Families families = parse_families(std::array{
        FamilySource{"base.toml", base_family},
        FamilySource{"part.toml", "family = 'part'\nfragment = true\ndims.x.any = '1'\ntensors.x = 'x ; opt'"},
        FamilySource{"mine.toml", "family = 'base'\nextends = ['base', 'part']"}});
    REQUIRE(families.size() == 1);
    CHECK(families[0].tensors.contains("x"));
    CHECK(families[0].tensors.contains("up"));
}

TEST_CASE(
    "a file that makes a built-in family invalid is rejected at once; families that do not extend it are not read") {
    const FamilySource base{"base.toml", base_family, true};
    const FamilySource more{"more.toml", "family = 'more'\nextends = ['base']\n[dialects.hf]\nrules = [['w', 'up']]",
                            true};
    const FamilySource most{"most.toml", "family = 'most'\nextends = ['more']", true};
    const FamilySource broken{"broken.toml", "family = 'broken'\n[tensors]\nw = 'h'", true};
    const Families families =
        parse_families(std::array{base, more, most, broken, FamilySource{"my.toml", "family = 'my'"}});
    CHECK(families.size() == 5);
    CHECK_THROWS_AS(families[*families.find("broken")], Error);
    const FamilySource mine{"mine.toml", "family = 'base'"};
    const char* refusal = "more.toml: dialect 'hf': rule 'w': tensor 'up' is not declared";
    CHECK_THROWS_WITH_AS(parse_families(std::array{base, more, mine}), refusal, Error);
    CHECK_THROWS_AS(parse_families(std::array{base, more, most, mine}), Error);
}

TEST_CASE("mistakes in rules are reported with file and line") {
    CHECK(family_refusal("family = 'more'\nextends = ['nobody']") ==
          "more.toml: it extends the unknown family 'nobody'");
    CHECK(family_refusal("family = 'more'\nextends = ['more']") == "more.toml: it extends the unknown family 'more'");
    CHECK(family_refusal("family = 'base'\nextends = ['base']").find("more.toml: base.toml") == std::string::npos);
    CHECK(family_refusal("family = 'more'\n[tensors]\nw = 'a b ; tp=c'") ==
          "more.toml: line 3: tensor 'w': it has no factor 'c'");
    CHECK(family_refusal("family = 'more'\n[tensors]\nw = 'h ; tp'").find("unknown word 'tp'") != std::string::npos);
    CHECK(family_refusal("family = 'more'\n[tensors]\nw = 'h'") ==
          "more.toml: tensor 'w': the size of factor 'h' is not declared in [dims]");
    CHECK(family_refusal("family = 'more'\ndims.h.any = '1'\n[tensors]\nw = 'h h'") ==
          "more.toml: tensor 'w': factor 'h' occurs twice");
    CHECK(family_refusal("family = 'more'\n[dialects.hf]\nrules = [['.w', 'w']]") ==
          "more.toml: rule '.w' begins with '.', but the dialect has no 'layer'");
    CHECK(family_refusal("family = 'more'\n[dialects.hf]\nrules = [['w', 'w']]") ==
          "more.toml: dialect 'hf': rule 'w': tensor 'w' is not declared");
    CHECK(family_refusal("family = 'more'\n[dialects.hf]\nrules = [\n['w{x}', 'w']]").find("more.toml: line 4: ") == 0);
    CHECK(family_refusal("family = 'more'\nextends = ['base']\n[dialects.hf]\nrules = [['w{e}', 'extra']]")
              .find("tensor 'extra' has no index 'e'") != std::string::npos);
}

TEST_CASE("the built-in families are valid, and each can be recognized") {
    const Families families = formats::load_families({});
    CHECK(families.size() >= 5);
    for (std::size_t number = 0; number < families.size(); ++number) {
        const Family& family = families[number];
        CAPTURE(family.name);
        // The whole head is before the first table of the file, so it is known before the file is read.
        CHECK(families.head(number).name == family.name);
        CHECK(families.head(number).told == family.told);
        CHECK(families.head(number).detect == family.detect);
        CHECK(!family.detect.empty());  // by Megatron's names alone where transformers stores the model otherwise
        for (const auto& [dialect, tensors] : family.detect) CHECK(family.dialect(dialect));
        // Every dialect stores the required tensors.
        for (const Dialect& dialect : family.dialects) {
            for (const auto& [name, tensor] : family.tensors) {
                CAPTURE(name);
                CHECK((tensor.optional || std::ranges::any_of(dialect.rules, [&](const Rule& rule) {
                           return std::ranges::find(rule.expression.parts, name) != rule.expression.parts.end();
                       })));
            }
        }
    }
}

TEST_CASE("the worked example of tpx-rules(5) is the file that is tested") {
    const auto lines_of = [](const char* path) {
        std::ifstream file{path};
        std::vector<std::string> lines;
        for (std::string line; std::getline(file, line);) lines.push_back(line);
        return lines;
    };
    const std::vector<std::string> page = lines_of("man/tpx-rules.5.in");
    const std::vector<std::string> example = lines_of("testdata/rules/sandwich.toml");
    REQUIRE(example.size() > 10);
    CHECK_FALSE(std::ranges::search(page, example).empty());
}

TEST_CASE("a value can be null, and can depend on several conditions") {
    const Config config{{"a", true}, {"b", false}, {"c", std::string{"word"}}};
    const Dims dims;
    CHECK(dims.value("null if !a | null", config) == ConfigValue{nullptr});
    CHECK(dims.value("'yes' if a & !b & c=word | 'no'", config) == ConfigValue{std::string{"yes"}});
    CHECK(dims.value("'yes' if a & b | 'no'", config) == ConfigValue{std::string{"no"}});
}

TEST_CASE("of several rules for one name, the one whose tag names a stored tensor counts") {
    const Families families = formats::load_families({});
    for (const bool norms : {true, false}) {
        std::vector<Tensor> tensors{{"tok_embeddings.weight", DType::f32, {64, 16}},
                                    {"output.weight", DType::f32, {64, 16}}};
        tensors.push_back({"norm.weight", DType::f32, Shape(1, 16)});
        for (const char* name : {"attention.wq", "attention.wk", "attention.wv", "attention.wo", "feed_forward.w1",
                                 "feed_forward.w2", "feed_forward.w3"})
            tensors.push_back({std::string{"layers.0."} + name + ".weight", DType::f32, {16, 16}});
        for (const char* name : {"attention_norm", "ffn_norm"})
            tensors.push_back({std::string{"layers.0."} + name + ".weight", DType::f32, Shape(1, 16)});
        if (norms) {
            for (const char* name : {"attention.q_norm", "attention.k_norm"})
                tensors.push_back({std::string{"layers.0."} + name + ".weight", DType::f32, Shape(1, 8)});
        }
        const Reading reading = read(tensors, families, {});
        REQUIRE(reading.family);
        CHECK(reading.family->name == "llama");
        // torchtitan's Qwen3 rotates halves; its Llama rotates adjacent elements.
        CHECK(reading.meanings[3].rule->expression.axes.empty() == norms);
    }
}

TEST_CASE("a mistake in [[outer]] is reported with its line") {
    const auto refusal = [](std::string_view outer) {
        return family_refusal(fmt::format("family = 'more'\nextends = ['base']\n{}", outer));
    };
    const auto part = [&](std::string_view text) {
        return refusal(fmt::format("[[outer]]\ntypes = ['seeing']\nparts = [{}]", text));
    };
    CHECK(part("{ hf = ['a.*', 'b.*'], mcore = 'c.*' }, { hf = 'a', mcore = 'c -> b a' }").empty());
    const std::string star = "more.toml: line 5: all names of a part must have one '*', or none";
    CHECK(part("{ hf = 'a.*', mcore = 'b' }") == star);
    CHECK(part("{ hf = ['a.*', 'a'], mcore = 'b.*' }") == star);
    CHECK(part("{ hf = 'a.*.*' }") == "more.toml: line 5: the name of a part has one '*' at most");
    CHECK(part("{ hf = 'a.*', mcore = [] }") == "more.toml: line 5: a part needs a name");
    CHECK(part("{}") == "more.toml: line 5: a part needs a name");
    CHECK(part("{ mcore = '{x.*' }") == "more.toml: line 5: name '{x.*': '{' is not closed");
    CHECK(part("{ mcore = 'x.{l}.*' }") ==
          "more.toml: line 5: the name of a part cannot contain {l}, {e} or a bracketed prefix");
    const std::string two = "axes = { q = 'a h', k = 'b h' }";
    CHECK(part("{ hf = 'x q k -> (+) h', " + two + " }").empty());
    CHECK(part("{ hf = 'x', " + two + " }") == "more.toml: line 5: 'x': the tensors of the part must follow the name");
    const std::string wrong = "': the name of a part cannot have an addend, '*' or 'as'";
    CHECK(part("{ hf = 'x q - 1', " + two + " }") == "more.toml: line 5: 'x q - 1" + wrong);
    CHECK(part("{ hf = 'x q*a k -> (+) h', " + two + " }") == "more.toml: line 5: 'x q*a k -> (+) h" + wrong);
    CHECK(part("{ hf = 'x q q -> (+) h', " + two + " }") ==
          "more.toml: line 5: 'x q q -> (+) h': tensor 'q' occurs twice");
    CHECK(part("{ hf = 'x q', " + two + " }") == "more.toml: line 5: tensor 'k' of a part has no name");
    CHECK(part("{ hf = 'x q w -> (+) h', " + two + " }") == "more.toml: line 5: the part has no tensor 'w'");
    CHECK(part("{ hf = 'x q k -> (a +) h', " + two + " }") ==
          "more.toml: line 5: a part has the factors of its 'axes', each once");
    CHECK(part("{ hf = 'x q' }") == "more.toml: line 5: 'x q': only '-> AXES' can follow the name of a part");
    CHECK(refusal("[outer]\ntypes = ['seeing']\nparts = []") ==
          "more.toml: line 3: 'outer' must be a list of tables; write [[outer]]");
}
