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
