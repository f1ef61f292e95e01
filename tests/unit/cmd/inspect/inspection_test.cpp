// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspection.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace tpx;
using namespace tpx::cli;

namespace {

struct Inspected {
    explicit Inspected(std::string folder)
        : path{std::move(folder)}, opened{open_checkpoint(path, {})}, found{inspect(opened, path)} {}

    std::string path;
    OpenedCheckpoint opened;
    Inspection found;
};

}  // namespace

TEST_CASE("inspection counts tensors, elements and bytes by role and dtype, and replicas") {
    const Inspected legacy{"testdata/llama-opt/legacy-tp2-dp2"};
    const auto all = totals(legacy.opened.source);
    REQUIRE(all.size() == 4);
    const Total& weights = all.at({"weight", "bf16"});
    CHECK(weights.tensors == 9);
    CHECK(weights.bytes == 2 * weights.elements);
    CHECK(all.at({"master", "f32"}).bytes == 4 * weights.elements);
    const Catalogue& catalogue = legacy.opened.source.checkpoint.catalogue;
    CHECK(count_replicas(catalogue) == 20);
    CHECK(files_of(catalogue).size() == 4);
    CHECK(legacy.found.holes.empty());
    CHECK_FALSE(legacy.found.nearest);
    const auto json = inspect_json(legacy.opened.source, legacy.found, true);
    CHECK(json["tensor_list"].size() == json["tensors"]);
    CHECK_FALSE(inspect_json(legacy.opened.source, legacy.found, false).contains("tensor_list"));
}

TEST_CASE("inspection names the quantization scheme and gives codes and scales their role") {
    const Inspected blocks{"testdata/quantized/fp8-block"};
    REQUIRE(blocks.found.schemes.size() == 1);
    CHECK(blocks.found.schemes.begin()->first == "fp8 e4m3, blocks of 32x32");
    CHECK(blocks.found.schemes.begin()->second == 14);
    CHECK(totals(blocks.opened.source).at({"quantized", "f32"}).tensors == 14);
}

TEST_CASE("inspection describes an adapter instead of a family") {
    const Inspected lora{"testdata/adapters/lora"};
    REQUIRE(lora.found.adapter);
    CHECK_FALSE(lora.found.nearest);
    CHECK(inspect_json(lora.opened.source, lora.found, false)["adapter"]["library"] == "peft");
}
