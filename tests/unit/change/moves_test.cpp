// SPDX-License-Identifier: Apache-2.0
#include "lib/change/moves.hpp"

#include "lib/change/certificate.hpp"
#include "lib/core/error.hpp"
#include "tests/support/cpu_time.hpp"
#include "tests/unit/change/random_sides.hpp"

#include <doctest/doctest.h>

#include <map>
#include <tuple>

using namespace tpx;
using namespace tpx::testing;

namespace {

// The source by the documented rule: one of the same rank, else the lowest piece.
std::uint32_t expected_source(const Pieces& source, const Piece& target, const Box& element) {
    std::tuple<bool, std::uint32_t> best{true, UINT32_MAX};
    for (std::uint32_t i = 0; i < source.pieces.size(); ++i) {
        const Piece& piece = source.pieces[i];
        if (piece.tensor == target.tensor && contains(piece.box, element))
            best = std::min(best, std::tuple{piece.rank != target.rank, i});
    }
    return std::get<1>(best);
}

Tensor tensor(std::string name, Shape shape) { return {std::move(name), DType::f32, shape}; }

Piece piece(Box box, std::int32_t rank = -1, std::uint32_t of = 0) {
    Piece made;
    made.tensor = of;
    made.box = box;
    made.rank = rank;
    return made;
}

// A `rows` x `columns` grid of pieces over an n x n tensor.
Pieces grid_pieces(Index n, Index rows, Index columns) {
    Pieces made{{tensor("w", {n, n})}, {}};
    for (Index r = 0; r < rows; ++r) {
        for (Index c = 0; c < columns; ++c) {
            made.pieces.push_back(
                piece({part({0, n}, rows, r), part({0, n}, columns, c)}, static_cast<std::int32_t>(r * columns + c)));
        }
    }
    return made;
}

double seconds_of(const Pieces& from, const Pieces& to) {
    Moves moves;
    const double took = test::least_cpu_seconds(5, [&] { moves = make_moves(from.side(), to.side()); });
    CHECK(certify(from.side(), to.side(), moves).holds());
    return took;
}

}  // namespace

TEST_CASE("each element has the documented source") {
    RandomSides random{11};
    for (int i = 0; i < 300; ++i) {
        const std::vector<Tensor> tensors = random.tensors(random.number(1, 4));
        const Pieces from = random.cover(tensors, 3);
        Pieces to = random.cover(tensors, 3);
        if (random.chance(10)) {
            for (Piece& target : to.pieces) target.rank = -1;
        }
        const Moves moves = make_moves(from.side(), to.side());
        CHECK(certify(from.side(), to.side(), moves).fault == "");

        std::map<std::pair<std::uint32_t, Box>, std::uint32_t> source_of;
        for (const Move& move : moves) {
            each_element(move.box, [&](const Box& e) {
                CHECK(source_of.emplace(std::pair{move.target, e}, move.source).second);
            });
        }
        for (std::uint32_t t = 0; t < to.pieces.size(); ++t) {
            each_element(to.pieces[t].box, [&](const Box& e) {
                CHECK(source_of.at({t, e}) == expected_source(from, to.pieces[t], e));
            });
        }
        CHECK(std::ranges::is_sorted(moves, {}, [](const Move& m) { return std::tuple{m.target, m.box}; }));
    }
}

TEST_CASE("with distances, each element comes from a nearest source") {
    RandomSides random{12};
    for (int i = 0; i < 200; ++i) {
        const std::vector<Tensor> tensors = random.tensors(random.number(1, 4));
        const Pieces from = random.cover(tensors, 3);
        const Pieces to = random.cover(tensors, 3);
        const int scale = static_cast<int>(random.number(1, 5));
        const auto distance = [&](std::uint32_t source, std::uint32_t target) {
            return static_cast<int>((source * 7 + target * 3) % static_cast<std::uint32_t>(scale));
        };
        const Moves moves = make_moves(from.side(), to.side(), distance);
        CHECK(certify(from.side(), to.side(), moves).fault == "");
        for (const Move& move : moves) {
            each_element(move.box, [&](const Box& e) {
                for (std::uint32_t s = 0; s < from.pieces.size(); ++s) {
                    if (from.pieces[s].tensor != to.pieces[move.target].tensor || !contains(from.pieces[s].box, e))
                        continue;
                    CHECK(distance(move.source, move.target) <= distance(s, move.target));
                }
            });
        }
    }
}

TEST_CASE("equally near replicas share the work") {
    Pieces from{{tensor("w", {8, 8})}, {}};
    Pieces to = from;
    for (std::int32_t rank = 0; rank < 4; ++rank) from.pieces.push_back(piece(whole(from.tensors[0].shape), rank));
    for (std::int32_t rank = 0; rank < 8; ++rank) to.pieces.push_back(piece(whole(to.tensors[0].shape), rank));
    std::vector<int> uses(4);
    for (const Move& move : make_moves(from.side(), to.side(), [](std::uint32_t, std::uint32_t) { return 1; }))
        ++uses[move.source];
    CHECK(uses == std::vector<int>{2, 2, 2, 2});
}

TEST_CASE("a plan to itself moves every piece whole and to itself") {
    const Pieces side = grid_pieces(24, 4, 3);
    const Moves moves = make_moves(side.side(), side.side());
    REQUIRE(moves.size() == 12);
    for (std::uint32_t i = 0; i < 12; ++i) {
        CHECK(moves[i].source == i);
        CHECK(moves[i].target == i);
        CHECK(moves[i].box == side.pieces[i].box);
    }
}

TEST_CASE("splits into a and b equal parts give a + b - gcd(a, b) moves") {
    for (const auto& [a, b] : {std::pair{4, 6}, {3, 5}, {8, 2}, {1, 7}})
        CHECK(make_moves(grid_pieces(120, a, 1).side(), grid_pieces(120, b, 1).side()).size() ==
              a + b - std::gcd(a, b));
}

TEST_CASE("from A to B and back is the identity") {
    const Pieces a = grid_pieces(30, 5, 2);
    const Pieces b = grid_pieces(30, 1, 4);
    const Moves there = make_moves(a.side(), b.side());
    const Moves back = make_moves(b.side(), a.side());
    std::map<Box, std::pair<std::uint32_t, std::uint32_t>> way;
    for (const Move& move : there) each_element(move.box, [&](const Box& e) { way[e] = {move.source, move.target}; });
    for (const Move& move : back)
        each_element(move.box, [&](const Box& e) { CHECK(way.at(e) == std::pair{move.target, move.source}); });
}

TEST_CASE("a hole is reported with its box and size") {
    Pieces from = grid_pieces(10, 1, 1);
    from.pieces = {piece({{0, 4}, {0, 10}}), piece({{6, 10}, {0, 10}})};
    CHECK_THROWS_WITH_AS(make_moves(from.side(), grid_pieces(10, 2, 1).side()),
                         "tensor 'w': no file contains [4:5, 0:10] (10 of 50 elements)", Error);
    from.pieces.clear();
    CHECK_THROWS_WITH_AS(make_moves(from.side(), grid_pieces(10, 1, 1).side()),
                         "tensor 'w': no file contains [0:10, 0:10] (100 of 100 elements)", Error);
}

TEST_CASE("sides of different tensors are refused") {
    const Pieces a = grid_pieces(10, 1, 1);
    Pieces b = grid_pieces(10, 1, 1);
    b.tensors[0] = tensor("v", {10, 10});
    CHECK_THROWS_WITH_AS(make_moves(a.side(), b.side()), "tensor 0 is 'w' in the source, 'v' in the target", Error);
    b.tensors[0] = tensor("w", {10, 9});
    CHECK_THROWS_WITH_AS(make_moves(a.side(), b.side()),
                         "tensor 'w': shape [10, 10] in the source, [10, 9] in the target", Error);
    b = a;
    b.pieces[0].box[1].end = 11;
    CHECK_THROWS_WITH_AS(make_moves(a.side(), b.side()),
                         "tensor 'w': a piece [0:10, 0:11] lies outside its shape [10, 10]", Error);
    b.pieces[0].tensor = 7;
    CHECK_THROWS_WITH_AS(make_moves(a.side(), b.side()), "a piece belongs to tensor 7 of 1", Error);
}

TEST_CASE("scalars and empty pieces") {
    Pieces from{{tensor("step", {}), tensor("none", {0, 4})}, {piece({}, 0, 0)}};
    Pieces to = from;
    to.pieces.push_back(piece({{0, 0}, {0, 4}}, 1, 1));
    const Moves moves = make_moves(from.side(), to.side());
    CHECK(moves.size() == 1);
    CHECK(certify(from.side(), to.side(), moves).holds());
}

TEST_CASE("time does not grow with the square of the pieces, whichever axis is split") {
    constexpr Index n = 160'000;
    CHECK(seconds_of(grid_pieces(n, n / 2, 1), grid_pieces(n, n / 3, 1)) < 5);
    CHECK(seconds_of(grid_pieces(n, 1, n / 2), grid_pieces(n, 1, n / 3)) < 5);
    CHECK(seconds_of(grid_pieces(n, 300, 300), grid_pieces(n, 250, 250)) < 5);
    CHECK(seconds_of(grid_pieces(n, 1, 500), grid_pieces(n, 500, 1)) < 5);
    CHECK(seconds_of(grid_pieces(n, 300, 300), grid_pieces(n, 1, 1)) < 5);
}
