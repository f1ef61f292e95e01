// SPDX-License-Identifier: Apache-2.0
#include "lib/change/piece_parcels.hpp"

#include "lib/core/error.hpp"
#include "tests/unit/change/random_sides.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <tuple>

namespace {

using namespace tpx;
using tpx::testing::each_element;
using tpx::testing::Pieces;

using RankGroup = std::set<std::int32_t>;
/// Bytes by (holders, needers, role, recut, bytes of an element).
using ElementAmounts = std::map<std::tuple<RankGroup, RankGroup, std::uint32_t, bool, std::uint32_t>, std::uint64_t>;

struct Element {
    RankGroup ranks;
    std::set<Box> boxes;
};

Element look(const Pieces& pieces, std::uint32_t tensor, const Box& at) {
    Element element;
    for (const Piece& piece : pieces.pieces) {
        if (piece.tensor != tensor || !contains(piece.box, at)) continue;
        element.ranks.insert(piece.rank);
        element.boxes.insert(piece.box);
    }
    return element;
}

ElementAmounts one_by_one(const Pieces& source, const Pieces& target, std::span<const std::uint32_t> roles) {
    ElementAmounts amounts;
    for (std::uint32_t t = 0; t < source.tensors.size(); ++t) {
        each_element(whole(source.tensors[t].shape), [&](const Box& at) {
            const Element held = look(source, t, at);
            const Element needed = look(target, t, at);
            if (needed.ranks.empty()) return;
            const bool recut = !std::ranges::includes(held.boxes, needed.boxes);
            const auto element = static_cast<std::uint32_t>(itemsize(source.tensors[t].dtype));
            amounts[{held.ranks, needed.ranks, roles[t], recut, element}] += element;
        });
    }
    return amounts;
}

RankGroup ranks(const RankSets& sets, std::uint32_t number) { return {sets[number].begin(), sets[number].end()}; }

TEST_CASE("parcels of pieces equal a count of their elements one by one") {
    tpx::testing::RandomSides random{3};
    for (int round = 0; round < 2000; ++round) {
        const auto tensors = random.tensors(random.number(1, 4));
        Pieces source = random.cover(tensors, 4);
        Pieces target = random.chance(20) ? source : random.cover(tensors, 5);
        while (random.chance(50) && !source.pieces.empty()) source.pieces.pop_back();
        std::vector<std::uint32_t> roles;
        for (std::size_t t = 0; t < tensors.size(); ++t) roles.push_back(random.number(0, 1));
        const Parcels parcels = parcels_of(source.side(), target.side(), roles, {Role::weight, Role::exp_avg}, 4, 5);
        ElementAmounts amounts;
        for (const Parcel& p : parcels.parcels) {
            CHECK(p.bytes > 0);
            CHECK(roles[p.tensor] == p.role);
            const auto key = std::tuple{ranks(parcels.holders, p.holders), ranks(parcels.needers, p.needers), p.role,
                                        p.recut, p.element};
            CHECK(amounts.try_emplace(key, p.bytes).second);
        }
        REQUIRE(amounts == one_by_one(source, target, roles));
    }
}

TEST_CASE("cells cover every byte of the parcels with its element, exactly once") {
    tpx::testing::RandomSides random{4};
    for (int round = 0; round < 500; ++round) {
        const auto tensors = random.tensors(random.number(1, 4));
        Pieces source = random.cover(tensors, 4);
        const Pieces target = random.chance(20) ? source : random.cover(tensors, 5);
        while (random.chance(50) && !source.pieces.empty()) source.pieces.pop_back();
        std::vector<std::uint32_t> roles;
        for (std::size_t t = 0; t < tensors.size(); ++t) roles.push_back(random.number(0, 1));
        const Parcels parcels = parcels_of(source.side(), target.side(), roles, {Role::weight, Role::exp_avg}, 4, 5);
        std::vector<std::uint64_t> ends(parcels.parcels.size(), 0);
        std::set<std::pair<std::uint32_t, Box>> seen;
        std::uint32_t last = 0;
        for (const PieceCell& cell :
             cells_of(source.side(), target.side(), roles, {Role::weight, Role::exp_avg}, 4, 5)) {
            REQUIRE(cell.parcel >= last);
            last = cell.parcel;
            const Parcel& parcel = parcels.parcels[cell.parcel];
            CHECK(cell.begin == ends[cell.parcel]);
            CHECK(roles[cell.tensor] == parcel.role);
            CHECK(static_cast<std::uint32_t>(itemsize(tensors[cell.tensor].dtype)) == parcel.element);
            ends[cell.parcel] += static_cast<std::uint64_t>(volume(cell.box)) * parcel.element;
            each_element(whole(tensors[cell.tensor].shape), [&](const Box& at) {
                if (!contains(cell.box, at)) return;
                CHECK(seen.insert({cell.tensor, at}).second);
                CHECK(look(source, cell.tensor, at).ranks == ranks(parcels.holders, parcel.holders));
                CHECK(look(target, cell.tensor, at).ranks == ranks(parcels.needers, parcel.needers));
            });
        }
        for (std::size_t p = 0; p < ends.size(); ++p) CHECK(ends[p] == parcels.parcels[p].bytes);
    }
}

TEST_CASE("impossible pieces are refused with the tensor's name") {
    const std::vector<Tensor> tensors{{"w", DType::f32, {4}}};
    Piece piece;
    piece.box = {{0, 4}};
    piece.rank = 1;
    const Pieces good{tensors, {piece}};
    piece.rank = 2;
    const Pieces stranger{tensors, {piece}};
    CHECK_THROWS_WITH_AS(parcels_of(good.side(), stranger.side(), {}, {Role::weight}, 2, 2),
                         "tensor 'w': piece [0:4] is of rank 2, there are 2 ranks", Error);
    piece.box = {{0, 5}};
    const Pieces outside{tensors, {piece}};
    CHECK_THROWS_WITH_AS(parcels_of(outside.side(), good.side(), {}, {Role::weight}, 3, 2),
                         "tensor 'w': a piece [0:5] lies outside its shape [4]", Error);
    const Pieces other{{{"w", DType::f32, {5}}}, {}};
    CHECK_THROWS_WITH_AS(parcels_of(good.side(), other.side(), {}, {Role::weight}, 2, 2),
                         "tensor 0 is 'w' [4] in the source, 'w' [5] in the target", Error);
}

}  // namespace
