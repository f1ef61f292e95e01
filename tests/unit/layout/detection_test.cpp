// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/families.hpp"
#include "lib/layout/reading.hpp"

#include <doctest/doctest.h>

#include <array>
#include <vector>

namespace tpx {

TEST_CASE("of conditions separated by a bar, one must hold") {
    const Families families = parse_families(std::array{FamilySource{"either.toml", R"(
        family = "either"
        detect.mcore = ["swiglu", "mtp_num_layers | qk_layernorm"]
        [dims]
        h = { mcore = "hidden_size" }
        [tensors]
        norm = "h"
        [dialects.mcore]
        rules = [["norm.weight", "norm"]]
    )"}});
    const std::vector<Tensor> tensors{{"norm.weight", DType::f32, Shape(1, 8)}};
    const auto found = [&](Config args) {
        args["num_layers"] = std::int64_t{2};
        args["hidden_size"] = std::int64_t{8};
        return read(tensors, families, args).family != nullptr;
    };
    CHECK(found({{"swiglu", true}, {"mtp_num_layers", std::int64_t{1}}}));
    CHECK(found({{"swiglu", true}, {"mtp_num_layers", nullptr}, {"qk_layernorm", true}}));
    CHECK(!found({{"swiglu", true}, {"mtp_num_layers", nullptr}, {"qk_layernorm", false}}));
    CHECK(!found({{"qk_layernorm", true}}));
}

TEST_CASE("a family with told = true is considered only if a model_type names it") {
    const Families families = parse_families(std::array{FamilySource{"shy.toml", R"(
        family = "shy"
        detect.hf = ["shy"]
        told = true
        [dims]
        h = { hf = "hidden_size" }
        [tensors]
        norm = "h"
        [dialects.hf]
        rules = [["norm.weight", "norm"]]
    )"}});
    const std::vector<Tensor> tensors{{"norm.weight", DType::f32, Shape(1, 8)}};
    CHECK(read(tensors, families, {{"model_type", std::string{"shy"}}}).family != nullptr);
    CHECK(read(tensors, families, {{"hf_model_type", std::string{"shy"}}}).family != nullptr);
    CHECK(read(tensors, families, {{"model_type", std::string{"other"}}}).family == nullptr);
    CHECK(read(tensors, families, {}).family == nullptr);
}

}  // namespace tpx
