// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/digests.hpp"

#include "lib/core/crc.hpp"
#include "lib/exec/copy_elements.hpp"
#include "tests/mpi/random_job.hpp"
#include "tests/mpi/scratch.hpp"

#include <doctest/doctest.h>

#include <cstring>

using namespace tpx;
using test::RandomSide;

namespace {

Index place(const Piece& piece, const Box& box, Index element, int item) {
    Index offset = 0;
    for (int k = box.size() - 1; k >= 0; --k) {
        offset += (box[k].begin - piece.box[k].begin + element % box[k].size()) * piece.strides[k];
        element /= box[k].size();
    }
    return Index(piece.offset) + offset * item;
}

// The bytes of a tensor, row-major, one element at a time; from the pieces of its `tiling`.
std::string gathered(const RandomSide& side, const std::vector<std::string>& content, std::size_t tensor,
                     std::size_t tiling) {
    const Tensor& whole_tensor = side.tensors[tensor];
    const int item = itemsize(whole_tensor.dtype);
    std::string bytes(std::size_t(volume(whole_tensor.shape) * item), '\0');
    const Piece rows{0, 0, 0, whole(whole_tensor.shape), row_major(whole_tensor.shape), -1};
    for (std::uint32_t k : side.tilings[tensor][tiling]) {
        const Piece& piece = side.pieces[k];
        for (Index i = 0; i < volume(piece.box); ++i)
            std::memcpy(&bytes[std::size_t(place(rows, piece.box, i, item))],
                        &content[piece.file][std::size_t(place(piece, piece.box, i, item))], std::size_t(item));
    }
    return bytes;
}

// A job whose source contains each tensor once.
test::RandomJob job_without_copies(std::uint64_t seed) {
    for (;; seed += 1000) {
        test::Random random{seed};
        test::RandomJob job = test::random_job(random, seed % 5 == 0);
        if (std::ranges::all_of(job.source.tilings, [](const auto& tilings) { return tilings.size() == 1; }))
            return job;
    }
}

std::vector<SourceFile> write(const test::RandomJob& job, const test::Scratch& scratch) {
    std::vector<SourceFile> files;
    for (std::size_t k = 0; k < job.source.files.size(); ++k) {
        scratch.write(job.source.files[k].path, job.content[k]);
        files.push_back({scratch / job.source.files[k].path});
    }
    return files;
}

std::string cast(const std::string& bytes, const Tensor& tensor, DType to) {
    const Index count = volume(tensor.shape);
    std::string result(std::size_t(count * itemsize(to)), '\0');
    cast_elements({count}, reinterpret_cast<const std::byte*>(bytes.data()), {itemsize(tensor.dtype)}, tensor.dtype,
                  reinterpret_cast<std::byte*>(result.data()), {itemsize(to)}, to);
    return result;
}

Digest digest_of(const std::string& bytes) { return {Crc64::of(std::as_bytes(std::span{bytes})), bytes.size()}; }

}  // namespace

TEST_CASE("the digest of a tensor is that of its bytes, wherever they are stored") {
    const mpi::Comm world = mpi::Comm::world();
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        CAPTURE(seed);
        const test::RandomJob job = job_without_copies(seed);
        const test::Scratch scratch{world};
        const auto files = write(job, scratch);
        ExecOptions options;
        options.memory = std::uint64_t{2} << 20;
        const auto plain = digests(world, job.source.side(), files, options);
        const auto wide = digests(world, job.source.side(), files, options, DType::f64);
        for (std::size_t k = 0; k < plain.size(); ++k) {
            const std::string bytes = gathered(job.source, job.content, k, 0);
            CHECK(plain[k] == digest_of(bytes));
            CHECK(wide[k] == digest_of(cast(bytes, job.source.tensors[k], DType::f64)));
        }
    }
}

TEST_CASE("an expanded tensor may have many more bytes than buffers have") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    scratch.write("one", "abcd");
    constexpr Index rows = Index{1} << 22;
    const std::vector<Tensor> tensors = {{"w", DType::u8, {rows, 3}}};
    const std::vector<Piece> pieces = {{0, 0, 1, {{0, rows}, {0, 3}}, {0, 1}, -1}};
    const std::vector<Piece> single = {{0, 0, 2, {{0, rows}, {0, 3}}, {0, 0}, -1}};
    const std::vector<SourceFile> files = {{scratch / "one"}};
    ExecOptions options;
    options.memory = std::uint64_t{2} << 20;
    std::string bytes;
    for (Index k = 0; k < rows; ++k) bytes += "bcd";
    CHECK(digests(world, {tensors, pieces}, files, options)[0] == digest_of(bytes));
    CHECK(digests(world, {tensors, single}, files, options)[0] == digest_of(std::string(bytes.size(), 'c')));
}

TEST_CASE("copies that differ are named with both files") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    scratch.write("one", "0123456789abcdef");
    scratch.write("two", "0123456789abcdef");
    scratch.write("odd", "0123456789abcdeF");
    const std::vector<Tensor> tensors = {{"w", DType::u8, {16}}};
    const std::vector<Piece> pieces = {{0, 0, 0, {{0, 16}}, {1}, -1}, {0, 1, 0, {{0, 16}}, {1}, -1}};
    const Side side{tensors, pieces};
    const std::vector<SourceFile> same = {{scratch / "one"}, {scratch / "two"}};
    CHECK(digests(world, side, same, {})[0] == digest_of("0123456789abcdef"));
    const std::vector<SourceFile> different = {{scratch / "one"}, {scratch / "odd"}};
    const std::string expected = fmt::format("tensor 'w': {} and {} hold different copies of [0:16]",
                                             different[0].path.string(), different[1].path.string());
    try {
        digests(world, side, different, {});
        FAIL("nothing was thrown");
    } catch (const mpi::AgreedError& error) {
        CHECK(error.what() == expected);
        CHECK(error.exit() == Exit::no);
    }
}

TEST_CASE("holes appear in the length; overlaps and short files are errors") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    scratch.write("one", "0123456789abcdef");
    const std::vector<Tensor> tensors = {{"w", DType::u8, {16}}};
    const std::vector<SourceFile> files = {{scratch / "one"}};
    std::vector<Piece> pieces = {{0, 0, 0, {{0, 8}}, {1}, -1}};
    CHECK(digests(world, {tensors, pieces}, files, {})[0].bytes == 8);
    pieces.push_back({0, 0, 0, {{0, 16}}, {1}, -1});
    CHECK_THROWS_AS(digests(world, {tensors, pieces}, files, {}), mpi::AgreedError);
    pieces = {{0, 0, 1, {{0, 16}}, {1}, -1}};
    CHECK_THROWS_AS(digests(world, {tensors, pieces}, files, {}), mpi::AgreedError);
}
