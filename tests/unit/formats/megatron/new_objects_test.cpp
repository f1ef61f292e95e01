// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/new_objects.hpp"

#include "formats/safetensors/driver.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace tpx;
using namespace tpx::formats;

namespace {

std::set<std::string> extra_states_for(std::vector<Tensor> tensors) {
    Checkpoint source;
    source.format = &safetensors_driver;
    Content content;
    content.tensors = std::move(tensors);
    content.source = &source;
    std::set<std::string> names;
    for (const auto& made : megatron::new_objects(content, megatron::ObjectForm::listed).made) names.insert(made.name);
    return names;
}

}  // namespace

// Keys that megatron-core 0.16.1 saves for such models.
TEST_CASE("a Mamba hybrid gets an extra state of its output layer, a GPT does not") {
    CHECK(extra_states_for(
              {{"decoder.final_norm.weight", DType::f32, {4}}, {"output_layer.weight", DType::f32, {8, 4}}}) ==
          std::set<std::string>{"decoder.final_norm._extra_state/shard_0_1", "output_layer._extra_state/shard_0_1"});
    CHECK(extra_states_for(
              {{"decoder.final_layernorm.weight", DType::f32, {4}}, {"output_layer.weight", DType::f32, {8, 4}}}) ==
          std::set<std::string>{"decoder.final_layernorm._extra_state/shard_0_1"});
}
