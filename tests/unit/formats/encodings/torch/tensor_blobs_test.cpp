// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/tensor_blobs.hpp"

#include "formats/dcp/dcp.hpp"
#include "formats/encodings/torch/archive_writer.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "tests/support/memory_file.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <string>

using namespace tpx;

namespace {

/// The tensor that `read` finds, or its error, as a text.
std::string outcome(const std::function<torch::StoredTensor()>& read) {
    try {
        const torch::StoredTensor tensor = read();
        return fmt::format("{} {} {} {} {}", name(tensor.dtype), to_string(tensor.shape), to_string(tensor.strides),
                           tensor.offset, tensor.storage);
    } catch (const Error& error) {
        return error.what();
    }
}

/// Changes each byte of `blob`, except in the middle of long blobs, and compares the result of a reader that knows
/// `blob` with that of a new one. Returns how often the first reader parsed nothing.
int known_flips(const std::string& blob) {
    const auto range_of = [](const test::MemoryFile& file) {
        torch::FileRange range = file.range();
        range.ends = 1024;
        return range;
    };
    torch::TensorBlobs original;
    const test::MemoryFile file{blob};
    const std::string found = outcome([&] { return original.read(range_of(file)); });
    CHECK(found == outcome([&] { return torch::read_tensor_blob(range_of(file)); }));
    int known = 0;
    const auto is_inside_payload = [&](std::size_t at) { return at > 1100 && at + 1200 < blob.size(); };
    for (std::size_t at = 0; at < blob.size(); at += is_inside_payload(at) ? 97 : 1) {
        std::string bytes = blob;
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
        CAPTURE(at);
        const test::MemoryFile changed{bytes};
        torch::TensorBlobs blobs = original;
        CHECK(outcome([&] { return blobs.read(range_of(changed)); }) ==
              outcome([&] { return torch::read_tensor_blob(range_of(changed)); }));
        known += blobs.parsed() == 1 ? 1 : 0;
    }
    return known;
}

std::string framed(const Shape& shape) {
    const torch::TensorFrame frame = torch::frame_tensor(DType::bf16, shape);
    return frame.prefix + std::string(frame.payload, '\1') + frame.suffix;
}

}  // namespace

TEST_CASE("a reader that knows a blob reads each changed one like a new reader") {
    CHECK(known_flips(framed({16, 16})) > 512);
    CHECK(known_flips(framed({100, 100})) > 100);
    const formats::Checkpoint checkpoint = formats::open_dcp("testdata/dcp/fsdp2-tp2");
    const Piece& piece = checkpoint.catalogue.pieces[0];
    const std::string file = read_file(checkpoint.catalogue.path(piece.file));
    CHECK(known_flips(file.substr(piece.offset, checkpoint.archives[0])) > 64);
}

TEST_CASE("blobs that differ only in their payloads are parsed once, wherever they are") {
    const std::string blob = framed({3, 5}), other = framed({5, 3});
    const std::uint64_t payload = torch::frame_tensor(DType::bf16, Shape{3, 5}).prefix.size();
    std::string changed = blob;
    changed[payload] = '\2';
    const test::MemoryFile file{blob + changed + other + blob};
    torch::TensorBlobs blobs;
    torch::FileRange range = file.range();
    range.ends = 1024;
    range.length = blob.size();
    REQUIRE(other.size() == blob.size());
    const auto read = [&](std::uint64_t number) {
        range.offset = number * blob.size();
        const torch::StoredTensor tensor = blobs.read(range, number == 1 ? changed : "");
        CHECK(tensor.offset == range.offset + payload);
        return tensor.shape;
    };
    CHECK(read(0) == Shape{3, 5});
    CHECK(read(1) == Shape{3, 5});
    CHECK(blobs.parsed() == 1);
    CHECK(read(2) == Shape{5, 3});
    CHECK(blobs.parsed() == 2);
    CHECK(read(3) == Shape{3, 5});
}
