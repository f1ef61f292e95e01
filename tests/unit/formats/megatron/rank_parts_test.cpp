// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/rank_parts.hpp"

#include "formats/megatron/torch_dist.hpp"
#include "formats/rules/rules.hpp"
#include "formats/state/common_state.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/reading.hpp"
#include "lib/layout/suggest_rule.hpp"
#include "tests/support/families.hpp"

#include <doctest/doctest.h>

namespace tpx::formats::megatron {

TEST_CASE("a tensor with fewer layers than the others of its stack is not written without them") {
    const Checkpoint source = open_torch_dist("testdata/megatron/muon/dist");
    Content content;
    content.tensors = source.catalogue.tensors;
    content.source = &source;
    content.layout.pp = 2;
    const Reading reading = read(content.tensors, test::families(), source.config);
    REQUIRE(reading.family != nullptr);
    content.reading = &reading;
    const Config args = args_of(*source.common);
    CHECK_NOTHROW(RankParts{content, args});
    for (Tensor& tensor : content.tensors)
        if (tensor.name == "decoder.layers.mlp.linear_fc1.weight") tensor.shape[0] = 1;
    CHECK_THROWS_WITH_AS((RankParts{content, args}),
                         "tensor 'decoder.layers.mlp.linear_fc1.weight': it has 1 layer, others have 2", Error);
}

TEST_CASE("a stacked tensor whose rule has no layer is refused, and the suggested rule gives it one") {
    const Checkpoint source = open_torch_dist("testdata/megatron/muon/dist");
    Content content;
    content.tensors = source.catalogue.tensors;
    content.tensors.push_back({"decoder.layers.self_attention.gain.weight", DType::bf16, {2, 8}});
    content.source = &source;
    const auto parts_with = [&](const std::string& rules) {
        std::vector<FamilySource> sources;
        for (const auto& builtin : builtin_rules()) sources.push_back({builtin.source, builtin.toml});
        sources.push_back({"mine.toml", rules});
        const Families families = parse_families(sources);
        const Reading reading = read(content.tensors, families, source.config);
        REQUIRE(reading.family != nullptr);
        CHECK(reading.family->name == "llama");
        content.reading = &reading;
        const RankParts parts{content, args_of(*source.common)};
    };
    const std::string extended = "family = \"llama\"\nextends = [\"llama\"]\n";
    const std::string dialect = "dialects.mcore.rules = [[\"decoder.layers.";
    CHECK_THROWS_WITH_AS(
        parts_with(extended + "tensors.gain = \"n d ; opt\"\n" + dialect + "self_attention.gain.weight\", \"gain\"]]"),
        "tensor 'decoder.layers.self_attention.gain.weight': its rule does not name the layer, so its names in rank "
        "files are unknown; write {l?} after 'layers.' in the rule and l as the tensor's first axis",
        Error);

    const Families& builtin = test::families();
    const Family& llama = builtin[*builtin.of_type("llama")];
    const Dims dims{llama, "mcore", source.config};
    std::string suggested = suggest_rule(llama, *llama.dialect("mcore"), dims, content.tensors.back());
    CHECK(suggested.find("tensors.gain = \"l h ; opt\"") != std::string::npos);
    CHECK(suggested.find("[[\"decoder.layers.{l?}.self_attention.gain.weight\", \"gain\"]]") != std::string::npos);
    content.tensors.back().name = "decoder.layers.mlp.adapters.0.weight";  // the number is not that of a layer
    suggested = suggest_rule(llama, *llama.dialect("mcore"), dims, content.tensors.back());
    CHECK(suggested.find("\"l h ; opt\"; dialects.mcore.rules = [[\"decoder.layers.{l?}.mlp.adapters.0.weight\"") !=
          std::string::npos);
    content.tensors.back().name = "decoder.layers.self_attention.gain.weight";
    CHECK_NOTHROW(parts_with(extended + "tensors.gain = \"l h ; opt\"\n" + dialect +
                             "{l?}.self_attention.gain.weight\", \"gain\"]]"));
}

}  // namespace tpx::formats::megatron
