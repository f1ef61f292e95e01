// SPDX-License-Identifier: Apache-2.0
#include "lib/change/certificate.hpp"

#include "tests/unit/change/random_sides.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using namespace tpx::testing;

namespace {

struct World {
    Pieces from;
    Pieces to;
    Moves moves;

    Certificate certificate() const { return certify(from.side(), to.side(), moves); }
};

// Two tensors of two axes, split differently on the two sides.
World world() {
    RandomSides random{5};
    std::vector<Tensor> tensors{{"a", DType::bf16, {12, 10}}, {"b", DType::f32, {12, 10}}};
    World made{random.cover(tensors, 4), random.cover(tensors, 4), {}};
    made.moves = make_moves(made.from.side(), made.to.side());
    return made;
}

}  // namespace

TEST_CASE("a certificate counts what a plan moves") {
    const std::vector<Tensor> source{{"w", DType::f32, {4, 6}}};
    const std::vector<Tensor> target{{"w", DType::bf16, {4, 6}}};
    std::vector<Piece> from(2);
    from[0].box = {{0, 2}, {0, 6}};
    from[1].box = {{2, 4}, {0, 6}};
    std::vector<Piece> to(2);
    to[0].box = {{0, 4}, {0, 3}};
    to[1].box = {{0, 4}, {3, 6}};
    for (int i = 0; i < 2; ++i) from[i].rank = to[i].rank = i;
    const Side a{source, from};
    const Side b{target, to};
    const Certificate proof = certify(a, b, make_moves(a, b));
    CHECK(proof.holds());
    CHECK(proof.targets == 2);
    CHECK(proof.moves == 4);
    CHECK(proof.elements == 24);
    CHECK(proof.bytes_read == 96);
    CHECK(proof.bytes_written == 48);
    CHECK(proof.same_rank == 48);
}

TEST_CASE("an altered plan has no certificate") {
    const World good = world();
    REQUIRE(good.certificate().fault == "");
    for (std::size_t i = 0; i < good.moves.size(); ++i) {
        CAPTURE(i);
        const auto refused = [&](auto alter) {
            World bad = good;
            alter(bad.moves, bad.moves[i]);
            CHECK_FALSE(bad.certificate().holds());
        };
        refused([&](auto& moves, Move&) { moves.erase(moves.begin() + static_cast<std::ptrdiff_t>(i)); });
        refused([&](auto& moves, Move& move) { moves.push_back(Move{move}); });
        for (int k = 0; k < 2; ++k) {
            refused([&](auto&, Move& move) { move.box[k] = shift(move.box[k], 1); });
            refused([&](auto&, Move& move) { move.box[k] = shift(move.box[k], -1); });
            refused([&](auto&, Move& move) { ++move.box[k].end; });
            refused([&](auto&, Move& move) { --move.box[k].end; });
            refused([&](auto&, Move& move) { move.box[k] = {move.box[k].end, move.box[k].begin}; });
            refused([&](auto&, Move& move) { move.box[k].end = INT64_MAX; });
            refused([&](auto&, Move& move) { move.box[k].begin = INT64_MIN; });
        }
        refused([&](auto&, Move& move) { move.box = Box{{0, 1}}; });
        refused([&](auto&, Move& move) { move.source = 1'000'000; });
        refused([&](auto&, Move& move) { move.target = 1'000'000; });
        refused([&](auto&, Move& move) {
            move.target = (move.target + 1) % static_cast<std::uint32_t>(good.to.pieces.size());
        });
    }
}

TEST_CASE("a source that does not hold the box is refused, one that does is not") {
    const World good = world();
    for (std::size_t i = 0; i < good.moves.size(); ++i) {
        for (std::uint32_t source = 0; source < good.from.pieces.size(); ++source) {
            World other = good;
            Move& move = other.moves[i];
            move.source = source;
            const Piece& piece = good.from.pieces[source];
            const bool holds = piece.tensor == good.to.pieces[move.target].tensor && contains(piece.box, move.box);
            CHECK(other.certificate().holds() == holds);
        }
    }
}

TEST_CASE("overlap and hole of equal size do not cancel out") {
    const std::vector<Tensor> tensors{{"w", DType::f32, {8}}};
    std::vector<Piece> pieces(1);
    pieces[0].box = {{0, 8}};
    const Side side{tensors, pieces};
    CHECK(certify(side, side, Moves{{0, 0, {{0, 4}}}, {0, 0, {{4, 8}}}}).holds());
    CHECK_FALSE(certify(side, side, Moves{{0, 0, {{0, 4}}}, {0, 0, {{3, 7}}}}).holds());
    CHECK_FALSE(certify(side, side, Moves{{0, 0, {{0, 4}}}, {0, 0, {{0, 4}}}}).holds());
}

TEST_CASE("pieces and tensors are not trusted either") {
    const World good = world();
    World bad = good;
    bad.from.pieces[0].tensor = 9;
    CHECK_FALSE(bad.certificate().holds());
    bad = good;
    bad.to.pieces[0].box[0].end = 99;
    CHECK_FALSE(bad.certificate().holds());
    bad = good;
    bad.to.tensors[0].shape[0] = 13;
    CHECK_FALSE(bad.certificate().holds());
    bad = good;
    bad.to.tensors.pop_back();
    CHECK_FALSE(bad.certificate().holds());
}
