// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/hybrid_pattern.hpp"

#include <doctest/doctest.h>

#include <string>

namespace tpx::formats::megatron {

TEST_CASE("the pattern of a Mamba hybrid says the kind of each layer") {
    const auto args = [](const std::string& pattern, std::int64_t layers) {
        Config made{{"hybrid_override_pattern", pattern}, {"num_layers", layers}};
        add_layer_kinds(made);
        return made;
    };
    const Config found = args("M-|M*", 4);
    CHECK(std::get<std::string>(found.at("mamba_layers")) == "[1,0,1,0]");
    CHECK(std::get<std::string>(found.at("attention_layers")) == "[0,0,0,1]");
    CHECK(std::get<std::string>(found.at("mlp_layers")) == "[0,1,0,0]");
    CHECK(std::get<std::string>(found.at("hf_model_type")) == "nemotron_h");
    Config written = found;
    remove_layer_kinds(written, {{"hybrid_override_pattern", std::string{"M-|M*"}}, {"num_layers", std::int64_t{4}}});
    CHECK(written.size() == 2);
    CHECK(args("M-M*", 5).size() == 2);     // not as many layers
    CHECK(args("M-M*G", 5).size() == 2);    // a kind that the family does not have
    CHECK(args("M-M*/MM", 4).size() == 2);  // layers for multi-token prediction
    CHECK(args("", 0).size() == 2);
    CHECK(std::get<std::string>(args("ME*-", 4).at("mamba_layers")) == "[1,0,0,0]");
    Config renamed{{"hybrid_layer_pattern", std::string{"ME*"}}, {"num_layers", std::int64_t{3}}};
    add_layer_kinds(renamed);
    CHECK(std::get<std::string>(renamed.at("attention_layers")) == "[0,0,1]");
    Config known{{"hybrid_override_pattern", std::string{"M-"}},
                 {"num_layers", std::int64_t{2}},
                 {"hf_model_type", std::string{"other"}}};
    add_layer_kinds(known);
    CHECK(known.size() == 3);
}

}  // namespace tpx::formats::megatron
