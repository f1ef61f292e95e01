// SPDX-License-Identifier: Apache-2.0
#include "formats/state/extra_state.hpp"

#include "formats/encodings/torch/archive_writer.hpp"
#include "tests/support/memory_file.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace tpx;
using torch::Archive;
using torch::Document;
using torch::Value;

namespace {

bool is_empty_archive(const std::string& bytes) {
    const test::MemoryFile file{bytes};
    const Archive archive = Archive::open(file.range());
    return formats::is_empty_extra_state(archive.root(), archive);
}

std::string archive_of_tensor(const Shape& shape) {
    const torch::TensorFrame frame = torch::frame_tensor(DType::u8, shape);
    return frame.prefix + std::string(frame.payload, 'x') + frame.suffix;
}

}  // namespace

TEST_CASE("an extra state is empty if it is None, a tensor without elements, or a list of these") {
    Document document;
    CHECK(is_empty_archive(torch::write_archive(document.list())));
    CHECK(is_empty_archive(torch::write_archive(document.list(std::vector<Value>{Value{}, Value{}}))));
    CHECK_FALSE(
        is_empty_archive(torch::write_archive(document.list(std::vector<Value>{Value{}, document.integer(0)}))));
    CHECK_FALSE(is_empty_archive(torch::write_archive(document.dict())));
    CHECK(is_empty_archive(archive_of_tensor(Shape{0})));
    CHECK_FALSE(is_empty_archive(archive_of_tensor(Shape{1})));
    // As torch.save writes None, and FP8 scales.
    CHECK(is_empty_archive(
        torch::write_archive(document.list(std::vector<Value>{document.bytes(std::string(1019, 'x'))}))));
    CHECK_FALSE(is_empty_archive(
        torch::write_archive(document.list(std::vector<Value>{document.bytes(std::string(4000, 'x'))}))));
}

TEST_CASE("extra states are named by their layers in the whole model") {
    using formats::extra_state_of_model;
    using formats::extra_state_of_object;
    const std::string third = "decoder.layers.3.mlp.linear_fc1._extra_state";
    CHECK(extra_state_of_model("decoder.layers.1.mlp.linear_fc1._extra_state", 2) == third);
    CHECK(extra_state_of_object("decoder.layers.mlp.linear_fc1._extra_state/shard_3_32") == third);
    CHECK(extra_state_of_object("decoder.layers.3.mlp.linear_fc1._extra_state/shard_0_1") == third);
    CHECK(extra_state_of_model("output_layer._extra_state", 2) == "output_layer._extra_state");
    CHECK(extra_state_of_object("output_layer._extra_state/shard_0_1") == "output_layer._extra_state");
    const std::string expert = "decoder.layers.mlp.experts.experts.linear_fc1._extra_state/shard_3.1_32.8";
    CHECK(extra_state_of_object(expert) == expert);
}
