// SPDX-License-Identifier: Apache-2.0
#include "formats/adapters/split_stacked_weights.hpp"

#include "formats/open_source.hpp"
#include "lib/core/error.hpp"
#include "tests/support/families.hpp"
#include "tests/support/scratch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace tpx;
using namespace tpx::formats;

namespace {

constexpr Index expert_count = 4;
constexpr Index adapter_rank = 2;

/// An adapter of the module model.layers.0.mlp.experts: for each of its parameters, the shape [out, in] that B * A has.
Adapter adapter_of(const std::vector<std::pair<Index, Index>>& parameters) {
    Adapter adapter;
    adapter.settings.parameters = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"};
    adapter.settings.base = "some/base";
    adapter.settings.rank = adapter_rank;
    std::string module = "model.layers.0.mlp.experts";
    std::vector<Tensor>& tensors = adapter.checkpoint.catalogue.tensors;
    for (const auto& [out, in] : parameters) {
        AdaptedWeight weight{
            .name = module + ".weight", .targets_parameter = true, .rank = adapter_rank, .experts = expert_count};
        weight.a = static_cast<std::uint32_t>(tensors.size());
        weight.b = *weight.a + 1;
        tensors.push_back({module + ".lora_A.weight", DType::f32, {adapter_rank * expert_count, in}});
        tensors.push_back({module + ".lora_B.weight", DType::f32, {out, adapter_rank * expert_count}});
        adapter.weights.push_back(weight);
        module += ".base_layer";
    }
    return adapter;
}

/// A base model that stores the experts of a module in one tensor.
Source base_of(const Shape& gate_up, const Shape& down) {
    Source source;
    source.checkpoint.catalogue.directory = "base";
    source.checkpoint.catalogue.tensors = {{"model.layers.0.mlp.experts.gate_up_proj", DType::f32, gate_up},
                                           {"model.layers.0.mlp.experts.down_proj", DType::f32, down}};
    source.reading.meanings.resize(2);
    return source;
}

std::vector<bool> orientations(const std::vector<AdaptedWeight>& weights) {
    std::vector<bool> found;
    for (const AdaptedWeight& weight : weights) found.push_back(weight.transposed);
    return found;
}

}  // namespace

TEST_CASE("square experts have the orientation of the other experts of their module") {
    const Source in_out = base_of({expert_count, 8, 16}, {expert_count, 8, 8});
    const auto found = split_stacked_weights(adapter_of({{8, 8}, {16, 8}}), in_out);
    CHECK(orientations(found) == std::vector{true, true});
    CHECK(found[0].name == "model.layers.0.mlp.experts.down_proj");
    CHECK(found[1].name == "model.layers.0.mlp.experts.gate_up_proj");
    const Source out_in = base_of({expert_count, 16, 8}, {expert_count, 8, 8});
    CHECK(orientations(split_stacked_weights(adapter_of({{8, 8}, {16, 8}}), out_in)) == std::vector{false, false});
    CHECK(test::message_of([&] {
              split_stacked_weights(adapter_of({{8, 8}}), out_in);
          }) ==
          "tensor 'model.layers.0.mlp.experts.lora_A.weight': experts of 'model.layers.0.mlp.experts.down_proj' are "
          "square, so it is unknown whether they are transposed; merge with PEFT (merge_and_unload)");
}

TEST_CASE("an adapter that fits no parameter, or several, is refused") {
    const Source alike = base_of({expert_count, 6, 8}, {expert_count, 6, 8});
    CHECK(test::message_of([&] {
              split_stacked_weights(adapter_of({{6, 8}}), alike);
          }) ==
          "tensor 'model.layers.0.mlp.experts.lora_A.weight': fits 'model.layers.0.mlp.experts.gate_up_proj' and "
          "'model.layers.0.mlp.experts.down_proj' alike, so the adapted parameter is unknown; merge with PEFT "
          "(merge_and_unload)");
    CHECK(test::message_of([&] {
              split_stacked_weights(adapter_of({{5, 8}}), alike);
          }) ==
          "tensor 'model.layers.0.mlp.experts.lora_A.weight': base has no 4 experts of 5 x 8 named "
          "'model.layers.0.mlp.experts.gate_up_proj' or 'model.layers.0.mlp.experts.down_proj'; the adapter was "
          "trained on 'some/base'");
}

TEST_CASE("experts in separate tensors are adapted in both orientations") {
    const Source source = open_source("testdata/adapters/experts-base", test::families(), {});  // hidden 8, wide 6
    const auto straight = split_stacked_weights(adapter_of({{12, 8}, {8, 6}}), source);
    REQUIRE(straight.size() == 3 * expert_count);
    CHECK(std::ranges::none_of(straight, &AdaptedWeight::transposed));
    // PEFT before 0.18 took all parameters of three dimensions for [experts, in, out].
    const auto other = split_stacked_weights(adapter_of({{8, 12}, {6, 8}}), source);
    REQUIRE(other.size() == 3 * expert_count);
    CHECK(std::ranges::all_of(other, &AdaptedWeight::transposed));
    CHECK(other[1].name == "model.layers.0.mlp.experts.0.up_proj.weight");
    CHECK(other[1].first_row == 6);
}

TEST_CASE("patterns of ranks and alphas match parameters of experts") {
    // As PEFT saves an adapter of gate_proj, up_proj and down_proj, which transformers stacks.
    Adapter adapter = adapter_of({{8, 6}});
    std::vector<Tensor>& tensors = adapter.checkpoint.catalogue.tensors;
    tensors.push_back({"model.layers.0.mlp.experts.base_layer.lora_A.weight", DType::f32, {16, 8}});
    tensors.push_back({"model.layers.0.mlp.experts.base_layer.lora_B.weight", DType::f32, {12, 16}});
    adapter.weights.push_back({.name = "model.layers.0.mlp.experts.base_layer.weight", .a = 2, .b = 3, .experts = 8});
    adapter.settings.alpha = 3;
    adapter.settings.parameters = {"down_proj", "gate_up_proj"};
    adapter.settings.ranks = {{R"(.*\.gate_up_proj)", 4}};
    adapter.settings.alphas = {{R"(.*\.gate_up_proj)", 20}};
    const Source together = base_of({expert_count, 12, 8}, {expert_count, 8, 6});
    const Source apart = open_source("testdata/adapters/experts-base", test::families(), {});  // hidden 8, wide 6
    for (const Source* source : {&together, &apart}) {
        const auto found = split_stacked_weights(adapter, *source);
        CHECK(found.front().rank == 2);
        CHECK(found.front().scale == 1.5);
        CHECK(found.back().rank == 4);
        CHECK(found.back().experts == expert_count);
        CHECK(found.back().scale == 5);
    }
}
