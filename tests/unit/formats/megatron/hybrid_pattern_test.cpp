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
    CHECK(args("M-M*", 5).size() == 2);  // not as many layers
    CHECK(args("M-M*E", 5).size() == 2);
    CHECK(args("", 0).size() == 2);
    Config known{{"hybrid_override_pattern", std::string{"M-"}},
                 {"num_layers", std::int64_t{2}},
                 {"hf_model_type", std::string{"other"}}};
    add_layer_kinds(known);
    CHECK(known.size() == 3);
}

}  // namespace tpx::formats::megatron
