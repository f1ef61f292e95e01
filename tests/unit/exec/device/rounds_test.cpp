// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/device/rounds.hpp"

#include "lib/core/error.hpp"
#include "tests/support/random_strides.hpp"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

using namespace tpx;

namespace {

/// Tensors that are cut along an axis in one way in the files of the source and in another one in those of the target.
struct RandomState {
    std::vector<Tensor> tensors;
    std::vector<Piece> sources, targets;
    std::vector<Endpoint> source_files, target_files, senders;
    Moves moves;

    explicit RandomState(Random& random) {
        for (std::uint64_t k = 1 + random() % 12; k > 0; --k) {
            Shape shape;
            for (std::uint64_t axes = random() % 4; axes > 0; --axes) shape.push_back(pick(random, 9));
            const DType dtype = std::array{DType::u8, DType::bf16, DType::f32, DType::i64, DType::c128}[random() % 5];
            tensors.push_back({"t" + std::to_string(k), dtype, shape});
        }
        source_files = endpoints(random);
        target_files = endpoints(random);
        sources = cut(random, source_files.size());
        targets = cut(random, target_files.size());
        moves = make_moves({tensors, sources}, {tensors, targets});
        for (const Move& move : moves) senders.push_back(source_files[sources[move.source].file]);
    }

    RoundsJob job() const { return {moves, {tensors, sources}, {tensors, targets}, senders, target_files}; }

private:
    static std::vector<Endpoint> endpoints(Random& random) {
        std::vector<Endpoint> files;
        for (std::uint64_t k = 1 + random() % 6; k > 0; --k)
            files.push_back({static_cast<int>(random() % 4), static_cast<int>(random() % 3) - 1});
        return files;
    }

    std::vector<Piece> cut(Random& random, std::size_t files) const {
        std::vector<Piece> pieces;
        for (std::uint32_t k = 0; k < tensors.size(); ++k) {
            const Shape& shape = tensors[k].shape;
            const int axis = shape.empty() ? -1 : static_cast<int>(random() % std::uint64_t(shape.size()));
            const Index parts = axis < 0 ? 1 : 1 + pick(random, 3);
            for (Index part = 0; part < parts; ++part) {
                Box box = whole(shape);
                if (axis >= 0) box[axis] = {shape[axis] * part / parts, shape[axis] * (part + 1) / parts};
                pieces.push_back({k, static_cast<std::uint32_t>(random() % files), 0, box, row_major(sizes(box)), -1});
            }
        }
        return pieces;
    }
};

using Carried = std::pair<std::uint32_t, Tuple<Index>>;  // of a move

template <class Visit>
void each_element(const Box& box, Visit&& visit) {
    const Strides strides = row_major(sizes(box));
    for (Index k = 0; k < volume(box); ++k) {
        Tuple<Index> at;
        Index rest = k;
        for (int axis = 0; axis < box.size(); ++axis) {
            at.push_back(box[axis].begin + rest / strides[axis]);
            rest %= strides[axis];
        }
        visit(at);
    }
}

}  // namespace

TEST_CASE("rounds carry each element between hosts once, and no endpoint needs more staging than allowed") {
    Random random{1};
    for (int round = 0; round < 400; ++round) {
        CAPTURE(round);
        const RandomState state{random};
        const RoundsJob job = state.job();
        const std::uint64_t staging = 16 + random() % (random() % 2 ? 64 : 4000);
        const std::vector<Round> rounds = plan_rounds(job, staging);
        std::map<Carried, int> carried;
        for (const Round& one : rounds) {
            REQUIRE(!one.empty());
            std::map<Endpoint, std::uint64_t> sent, received;  // where the next message begins, at least
            for (const RoundMessage& message : one) {
                REQUIRE(message.from.host != message.to.host);
                REQUIRE(message.size > 0);
                REQUIRE(message.sent_at + message.size <= staging);
                REQUIRE(message.received_at + message.size <= staging);
                std::uint64_t end = 0;
                for (const RemoteBox& part : message.boxes) {
                    const Move& move = job.moves[part.move];
                    const Piece& piece = job.source.pieces[move.source];
                    REQUIRE(state.source_files[piece.file] == message.from);
                    REQUIRE(state.target_files[job.target.pieces[move.target].file] == message.to);
                    REQUIRE(contains(move.box, part.box));
                    REQUIRE(part.offset % 16 == 0);
                    REQUIRE(part.offset >= end);
                    end = part.offset + std::uint64_t(volume(part.box) * itemsize(state.tensors[piece.tensor].dtype));
                    each_element(part.box, [&](const Tuple<Index>& at) { ++carried[{part.move, at}]; });
                }
                REQUIRE(end == message.size);
            }
            // Messages of one endpoint do not overlap, on either side.
            for (std::size_t a = 0; a < one.size(); ++a)
                for (std::size_t b = 0; b < a; ++b) {
                    const auto apart = [](std::uint64_t x, std::uint64_t x_size, std::uint64_t y,
                                          std::uint64_t y_size) { return x + x_size <= y || y + y_size <= x; };
                    if (one[a].from == one[b].from)
                        REQUIRE(apart(one[a].sent_at, one[a].size, one[b].sent_at, one[b].size));
                    if (one[a].to == one[b].to)
                        REQUIRE(apart(one[a].received_at, one[a].size, one[b].received_at, one[b].size));
                }
        }
        std::map<Carried, int> expected;
        for (std::uint32_t k = 0; k < job.moves.size(); ++k) {
            const Move& move = job.moves[k];
            if (state.source_files[job.source.pieces[move.source].file].host ==
                state.target_files[job.target.pieces[move.target].file].host)
                continue;
            each_element(move.box, [&](const Tuple<Index>& at) { expected[{k, at}] = 1; });
        }
        REQUIRE(carried == expected);
    }
}

namespace {

/// Moves of whole pieces of `count` floats each from host 0 to host 1.
struct Vectors {
    std::vector<Tensor> tensors;
    std::vector<Piece> pieces;
    Moves moves;
    std::vector<Endpoint> from;
    std::array<Endpoint, 1> to{Endpoint{1, -1}};

    Vectors(std::size_t tensors_count, const Shape& shape) {
        for (std::uint32_t k = 0; k < tensors_count; ++k) {
            tensors.push_back({std::to_string(k), DType::f32, shape});
            pieces.push_back({k, 0, 0, whole(shape), row_major(shape), -1});
            moves.push_back({k, k, whole(shape)});
            from.push_back({0, -1});
        }
    }
    RoundsJob job() const { return {moves, {tensors, pieces}, {tensors, pieces}, from, to}; }
};

}  // namespace

TEST_CASE("thousands of small moves share a round") {
    const Vectors state{5000, {3}};
    const std::vector<Round> rounds = plan_rounds(state.job(), std::uint64_t{1} << 20);
    REQUIRE(rounds.size() == 1);
    REQUIRE(rounds[0].size() == 1);
    CHECK(rounds[0][0].boxes.size() == 5000);
    CHECK(staging_of(rounds, {0, -1}).sent == 5000 * 16 - 4);
    CHECK(staging_of(rounds, {0, -1}).received == 0);
    CHECK(staging_of(rounds, {1, -1}).received == 5000 * 16 - 4);
    CHECK(carried_bytes(rounds, state.job()) == 5000 * 12);
}

TEST_CASE("a move larger than the staging takes as many rounds as it fills") {
    const Vectors state{1, {1000, 10}};
    const std::vector<Round> rounds = plan_rounds(state.job(), 4000);
    CHECK(rounds.size() == 10);
    CHECK(carried_bytes(rounds, state.job()) == 40000);
    CHECK(plan_rounds(state.job(), 16).size() == 1000 * 3);  // 4, 4 and 2 elements of a row
}

TEST_CASE("scalars are carried, tensors without elements are not, and staging that carries nothing is refused") {
    CHECK(plan_rounds(Vectors{2, {}}.job(), 64).size() == 1);
    CHECK(plan_rounds(Vectors{2, {0, 3}}.job(), 64).empty());
    CHECK_THROWS_WITH_AS(plan_rounds(Vectors{1, {}}.job(), 15), "15 bytes of staging; at least 16 are needed", Error);
}
