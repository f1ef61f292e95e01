// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/archive_writer.hpp"

#include "lib/core/error.hpp"
#include "tests/support/memory_file.hpp"

#include <doctest/doctest.h>
#include <zlib.h>

#include <array>
#include <cstring>

using namespace tpx;
using test::MemoryFile;
using torch::Archive;
using torch::Document;
using torch::Entry;
using torch::frame_tensor;
using torch::Value;

namespace {

/// The whole archive of a frame around `payload`, its CRC-32 filled in with zlib's.
std::string fill(const torch::TensorFrame& frame, const std::string& payload) {
    std::string archive = frame.prefix + payload + frame.suffix;
    const auto crc = static_cast<std::uint32_t>(
        ::crc32(0, reinterpret_cast<const Bytef*>(payload.data()), static_cast<uInt>(payload.size())));
    for (const std::uint64_t position : frame.crcs) std::memcpy(archive.data() + position, &crc, sizeof crc);
    return archive;
}

}  // namespace

TEST_CASE("a framed tensor of every dtype and shape is read back") {
    for (const DTypeInfo& type : dtypes())
        for (const Shape& shape : {Shape{}, Shape{0}, Shape{5}, Shape{3, 0, 4}, Shape{2, 3, 4, 5, 1, 1, 1, 2}}) {
            CAPTURE(type.name);
            CAPTURE(to_string(shape));
            torch::TensorFrame frame;
            try {
                frame = frame_tensor(type.dtype, shape);
            } catch (const Error&) {
                CHECK((type.torch.empty() || itemsize(type.dtype) == 0 || type.torch.starts_with("q")));
                continue;
            }
            CHECK(frame.prefix.size() % 64 == 0);
            std::string payload(frame.payload, '\0');
            for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<char>(i * 7 + 1);
            const MemoryFile file{fill(frame, payload)};
            const auto tensor = torch::read_tensor_blob(file.range());
            CHECK(file.range().length == frame.size());
            CHECK(tensor.dtype == type.dtype);
            CHECK(tensor.shape == shape);
            CHECK(tensor.strides == row_major(shape));
            CHECK(tensor.offset == frame.prefix.size());
            const Archive archive = Archive::open(file.range());
            CHECK(archive.elements(tensor) == payload);
            archive.check_crcs();
        }
}

TEST_CASE("frames of more than 4 GiB use zip64, and impossible ones are refused") {
    const auto frame = frame_tensor(DType::f32, Shape{3, std::int64_t{1} << 30});
    CHECK(frame.payload == std::uint64_t{12} << 30);
    CHECK(frame.prefix.size() % 64 == 0);
    CHECK(frame.suffix.find("PK\x06\x06") != std::string::npos);
    CHECK(frame_tensor(DType::f32, Shape{8}).suffix.find("PK\x06\x06") == std::string::npos);
    CHECK_THROWS_WITH_AS(frame_tensor(DType::f4, Shape{8}), "torch cannot store tensors of dtype f4", Error);
    CHECK_THROWS_AS(frame_tensor(DType::f64, Shape{std::int64_t{1} << 60}), Error);
    CHECK_THROWS_AS(frame_tensor(DType::f64, Shape{std::int64_t{1} << 40, std::int64_t{1} << 40}), Error);
}

TEST_CASE("an object tree and its tensors are read back from their archive") {
    const Archive source = Archive::open("testdata/torch/good/plain.pt");
    Document edited;
    const Value root = edited.with_key(source.root(), "step", edited.integer(8));
    const MemoryFile file{torch::write_archive(root, &source)};
    const Archive copy = Archive::open(file.range());
    copy.check_crcs();
    CHECK(equal(copy.root(), root));
    CHECK_FALSE(equal(copy.root(), source.root()));
    const auto before = source.tensors(), after = copy.tensors();
    REQUIRE(before.size() == after.size());
    for (std::size_t i = 0; i < before.size(); ++i)
        CHECK(copy.elements(after[i].tensor) == source.elements(before[i].tensor));
    CHECK_THROWS_AS(torch::write_archive(root), Error);
}

TEST_CASE("an attribute of a Namespace is edited, everything else stays") {
    const Archive source = Archive::open("testdata/torch/good/objects.pt");
    Document edited;
    const Value args = edited.with_attribute(source.root().at("args"), "tp", edited.integer(4));
    const MemoryFile file{torch::write_archive(edited.with_key(source.root(), "args", args))};
    const Archive copy = Archive::open(file.range());
    CHECK(copy.root().at("args").attribute_at("tp").as_int() == 4);
    Document back;
    const Value restored = back.with_attribute(copy.root().at("args"), "tp", back.integer(2));
    CHECK(equal(back.with_key(copy.root(), "args", restored), source.root()));
}
