// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/suggest_rule.hpp"

#include "formats/rules/rules.hpp"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

using namespace tpx;

namespace {

const Family& family(std::string_view name) {
    static const Families all = formats::load_families({});
    return *std::ranges::find(all, name, &Family::name);
}

/// The suggestion as a file.
std::string as_file(std::string_view text) {
    std::string file;
    bool quoted = false;
    for (char c : text) {
        quoted ^= c == '"';
        file += c == ';' && !quoted ? '\n' : c;
    }
    return file;
}

}  // namespace

TEST_CASE("the suggestion is a valid file of rules that matches the tensor") {
    const Config config{{"hidden_size", std::int64_t{32}},
                        {"num_attention_heads", std::int64_t{4}},
                        {"num_experts", std::int64_t{6}},
                        {"moe_intermediate_size", std::int64_t{20}}};
    const Family& moe = family("qwen3moe");
    const Dims dims{moe, "hf", config};
    const auto suggested = [&](const char* name, const Shape& shape) {
        return suggest_rule(moe, *moe.dialect("hf"), dims, {name, DType::bf16, shape});
    };
    CHECK(suggested("model.layers.3.self_attn.sinks", Shape(1, 4)) ==
          R"(family = "qwen3moe"; extends = ["qwen3moe"]; tensors.sinks = "l n ; opt"; dialects.hf.rules = )"
          R"([["model.layers.{l}.self_attn.sinks", "sinks"]])");
    const std::string expert = suggested("model.layers.3.mlp.experts.5.down_proj.bias", Shape(1, 32));
    CHECK(expert.find(R"(tensors.down_proj_bias = "l e h ; ep=e opt")") != std::string::npos);
    CHECK(suggested("model.norm.weight", {32, 7}).find(R"(tensors.norm_2 = "h ? ; opt")") != std::string::npos);

    std::vector<std::pair<std::string, std::string>> texts;
    for (const auto& rules : formats::builtin_rules()) texts.emplace_back(rules.source, rules.toml);
    texts.emplace_back("mine.toml", as_file(expert));
    std::vector<FamilySource> sources;
    for (const auto& [name, toml] : texts) sources.push_back({name, toml});
    const Families families = parse_families(sources);
    const Family& mine = *std::ranges::find(families, "qwen3moe", &Family::name);
    CHECK(mine.tensor("down_proj_bias").is_index('e'));
    CHECK(mine.dialect("hf")->rules.back().name.match("model.layers.3.mlp.experts.5.down_proj.bias"));
}

TEST_CASE("several files may each extend the family of their name, and keep what recognizes it") {
    std::vector<FamilySource> sources;
    for (const auto& rules : formats::builtin_rules()) sources.push_back({rules.source, rules.toml});
    std::array<std::string, 2> names{"gain", "bend"}, texts;
    for (std::size_t i = 0; i < names.size(); ++i) {
        texts[i] = fmt::format(
            "family = \"llama\"\nextends = [\"llama\"]\ntensors.{0} = \"l h\"\n"
            "dialects.hf.rules = [[\".{0}\", \"{0}\"]]\n",
            names[i]);
        sources.push_back({names[i], texts[i]});
    }
    const Families families = parse_families(sources);
    const Family& llama = families[*families.of_type("llama")];
    CHECK(llama.tensors.contains("gain"));
    CHECK(llama.tensors.contains("bend"));
    CHECK(llama.tensors.contains("embed"));
}
