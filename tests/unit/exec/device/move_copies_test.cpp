// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/device/move_copies.hpp"

#include "lib/core/crc.hpp"
#include "lib/exec/copy_elements.hpp"
#include "lib/exec/device/chunk_crc.hpp"
#include "tests/unit/change/random_sides.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

using namespace tpx;
using tpx::testing::Pieces;
using tpx::testing::RandomSides;

namespace {

constexpr int ranks = 3;

/// Files in memory, one a rank, with the pieces of a side one after another.
struct Files {
    std::vector<std::vector<std::byte>> bytes;
    std::vector<std::byte*> places;

    Files(Pieces& side, RandomSides& random) : bytes(ranks) {
        std::array<std::uint64_t, ranks> ends{};
        for (Piece& piece : side.pieces) {
            const Shape shape = sizes(piece.box);
            std::uint64_t& end = ends[static_cast<std::size_t>(piece.rank)];
            piece.file = static_cast<std::uint32_t>(piece.rank);
            piece.offset = end + 16 * static_cast<std::uint64_t>(random.number(0, 2));
            piece.strides = row_major(shape);
            if (shape.size() == 2 && random.chance(30)) piece.strides = {1, shape[0]};  // a part that is transposed
            end = piece.offset + static_cast<std::uint64_t>(volume(shape) * 8 + 15) / 16 * 16;
        }
        for (std::size_t k = 0; k < ranks; ++k) bytes[k].resize(ends[k] + 16);
        for (auto& file : bytes) places.push_back(file.data());
    }
};

/// The first byte of an element in the files of a side.
std::byte* at(const Files& files, const Piece& piece, const Box& element, int itemsize) {
    Index index = 0;
    for (int k = 0; k < element.size(); ++k) index += (element[k].begin - piece.box[k].begin) * piece.strides[k];
    return files.places[piece.file] + piece.offset + index * itemsize;
}

}  // namespace

TEST_CASE("random moves between places in memory bring each element, cast, and touch nothing else") {
    constexpr std::array types{DType::f32, DType::bf16, DType::f16, DType::i64};
    for (unsigned seed = 0; seed < 400; ++seed) {
        RandomSides random{seed};
        std::vector<Tensor> tensors = random.tensors(random.number(1, 4));
        Pieces source = random.cover(tensors, ranks), target = random.cover(tensors, ranks);
        for (std::size_t t = 0; t < tensors.size(); ++t) {
            source.tensors[t].dtype = types[static_cast<std::size_t>(random.number(0, 3))];
            target.tensors[t].dtype = source.tensors[t].dtype == DType::i64
                                          ? DType::i64
                                          : types[static_cast<std::size_t>(random.number(0, 2))];
        }
        Files from{source, random}, to{target, random};
        for (auto& file : from.bytes)
            for (std::byte& byte : file) byte = static_cast<std::byte>(random.number(0, 255));
        for (auto& file : to.bytes) std::ranges::fill(file, std::byte{0x77});
        const Moves moves = make_moves(source.side(), target.side());
        std::vector<std::uint32_t> chosen(moves.size());
        std::iota(chosen.begin(), chosen.end(), 0u);
        auto expected = to.bytes;
        for (const Move& move : moves) {
            REQUIRE(can_copy(move, source.side(), target.side()));
            const Piece &piece = source.pieces[move.source], &other = target.pieces[move.target];
            const DType was = source.tensors[piece.tensor].dtype, becomes = target.tensors[other.tensor].dtype;
            testing::each_element(move.box, [&](const Box& element) {
                const std::byte* read = at(from, piece, element, itemsize(was));
                std::byte* const written =
                    at(to, other, element, itemsize(becomes)) - to.places[other.file] + expected[other.file].data();
                cast_elements(1, read, was, written, becomes);
            });
        }
        const std::vector<const std::byte*> sources(from.places.begin(), from.places.end());
        std::size_t batches = 0;
        const auto most = static_cast<std::size_t>(random.number(1, 8));
        copy_moves(moves, chosen, {source.side(), sources}, {target.side(), to.places}, nullptr, most,
                   [&](const CopyBatch& batch) {
                       CHECK(batch.copies() <= most);
                       run_on_host(batch);
                       ++batches;
                   });
        CHECK(batches == (moves.size() + most - 1) / most);
        REQUIRE(to.bytes == expected);
    }
}

TEST_CASE("a cast that makes a finite value infinite is noticed, and no other") {
    const auto overflows = [](std::vector<float> values, DType to) {
        const std::vector<Tensor> tensors{{"w", DType::f32, {Index(values.size())}}}, cast{{"w", to, tensors[0].shape}};
        const std::vector<Piece> pieces{{0, 0, 0, whole(tensors[0].shape), {1}, 0}};
        const Moves moves{{0, 0, pieces[0].box}};
        const Side source{tensors, pieces}, target{cast, pieces};
        std::vector<std::byte> out(values.size() * 4);
        const std::array<const std::byte*, 1> from{reinterpret_cast<const std::byte*>(values.data())};
        const std::array<std::byte*, 1> into{out.data()};
        std::uint32_t flag = 0;
        copy_moves(moves, std::array{0u}, {source, from}, {target, into}, &flag, 1, run_on_host);
        return flag;
    };
    constexpr float infinite = std::numeric_limits<float>::infinity();
    CHECK(overflows({1, 65504, infinite, -infinite, std::numeric_limits<float>::quiet_NaN()}, DType::f16) == 0);
    CHECK(overflows({1, 2, 3, 65520}, DType::f16) == 1);      // items of four values
    CHECK(overflows({1, 2, 3, 4, -1e30f}, DType::f16) == 1);  // and of one
    CHECK(overflows({3.4e38f}, DType::bf16) == 1);
    CHECK(overflows({3.38e38f}, DType::bf16) == 0);
    CHECK(overflows({3.4e38f}, DType::f32) == 0);
}

TEST_CASE("what a device cannot copy is known beforehand") {
    const std::vector<Tensor> source{
        {"a", DType::f64, {1}}, {"b", DType::f8_e8m0, {1}}, {"c", DType::f64, {1}}, {"d", DType::f8_e4m3, {1}}};
    const std::vector<Tensor> target{
        {"a", DType::f32, {1}}, {"b", DType::f32, {1}}, {"c", DType::f64, {1}}, {"d", DType::bf16, {1}}};
    std::vector<Piece> pieces;
    for (std::uint32_t t = 0; t < 4; ++t) pieces.push_back({t, 0, 0, {{0, 1}}, {1}, 0});
    const auto possible = [&](std::uint32_t k) {
        return can_copy({k, k, {{0, 1}}}, {source, pieces}, {target, pieces});
    };
    CHECK_FALSE(possible(0));
    CHECK_FALSE(possible(1));  // the engine has no such cast, so that its error is the answer
    CHECK(possible(2));
    CHECK(possible(3));
}

TEST_CASE("the checksum of a chunk is that of the engine") {
    RandomSides random{9};
    for (const std::size_t size : {0u, 1u, 3u, 4u, 16u, 1000u, CrcChunk::longest}) {
        std::vector<std::byte> bytes(size);
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.number(0, 255));
        CHECK(chunk_crc({bytes.data(), static_cast<std::uint32_t>(size)}) == Crc32::of(bytes));
    }
}
