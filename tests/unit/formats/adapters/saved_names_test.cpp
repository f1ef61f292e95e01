// SPDX-License-Identifier: Apache-2.0
#include "formats/adapters/saved_names.hpp"

#include "tests/support/families.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace tpx;
using namespace tpx::formats;

namespace {

Source base_of(const std::string& stored) {
    Source source;
    source.checkpoint.catalogue.tensors = {{stored, DType::f32, {4, 4}}};
    source.reading.meanings.resize(1);
    return source;
}

std::string found_in(const std::string& stored, const std::string& in_memory) {
    return SavedNames{base_of(stored)}.of(in_memory);
}

}  // namespace

TEST_CASE("modules are found under the names that transformers saves") {
    CHECK(found_in("model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight") ==
          "model.layers.0.mlp.up_proj.weight");
    CHECK(found_in("language_model.model.layers.0.mlp.up_proj.weight",
                   "model.language_model.layers.0.mlp.up_proj.weight") ==
          "language_model.model.layers.0.mlp.up_proj.weight");
    CHECK(found_in("model.layers.0.mlp.up_proj.weight", "model.language_model.layers.0.mlp.up_proj.weight") ==
          "model.layers.0.mlp.up_proj.weight");
    CHECK(found_in("backbone.layers.0.mixer.up_proj.weight", "model.layers.0.mixer.up_proj.weight") ==
          "backbone.layers.0.mixer.up_proj.weight");
    CHECK(found_in("visual.blocks.0.attn.qkv.weight", "model.visual.blocks.0.attn.qkv.weight") ==
          "visual.blocks.0.attn.qkv.weight");
    CHECK(found_in("model.layers.1.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight") ==
          "model.layers.0.mlp.up_proj.weight");
}
