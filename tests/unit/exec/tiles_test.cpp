// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/tiles.hpp"

#include "lib/exec/work_claims.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <utility>

using namespace tpx;

namespace {

constexpr std::uint64_t mebi = std::uint64_t{1} << 20;

// A tensor of bytes split into `parts` along `axis`, each part in a separate file.
struct Cut {
    std::vector<Tensor> tensors;
    std::vector<Piece> pieces;

    Cut(const Shape& shape, int axis, Index parts) : tensors{{"w", DType::u8, shape}} {
        for (Index k = 0; k < parts; ++k) {
            Box box = whole(shape);
            box[axis] = part(box[axis], parts, k);
            pieces.push_back({0, std::uint32_t(k), 0, box, row_major(sizes(box)), -1});
        }
    }
    Side side() const { return {tensors, pieces}; }
};

Moves plan_of(const Cut& source, const Cut& target) {
    Moves moves;
    for (std::uint32_t to = 0; to < target.pieces.size(); ++to) {
        for (std::uint32_t from = 0; from < source.pieces.size(); ++from) {
            const Box box = intersect(source.pieces[from].box, target.pieces[to].box);
            if (!empty(box)) moves.push_back({from, to, box});
        }
    }
    return moves;
}

std::vector<Tile> tiles(const Tiler& tiler, int rank, int ranks) {
    std::vector<Tile> tiles;
    const auto edge = [&](int k) { return tiler.bytes() * static_cast<unsigned>(k) / static_cast<unsigned>(ranks); };
    const ByteRanges none;
    bool claimed = false;
    const auto claim = [&] {
        return std::exchange(claimed, true) ? ByteRange{} : ByteRange{edge(rank), edge(rank + 1)};
    };
    tiler.for_each(ClaimedShare{none, claim}, [&](Tile&& tile) {
        tiles.push_back(std::move(tile));
        return true;
    });
    return tiles;
}

// Ranks that take turns asking for parts of a job.
class ClaimingRanks {
public:
    ClaimingRanks(std::uint64_t total, int ranks, std::uint64_t least) : asked_(std::size_t(ranks)) {
        for (int rank = 0; rank < ranks; ++rank) claims_.emplace_back(total, ranks, rank, least);
    }

    // The next part of `rank`, after `other` has asked for a part.
    ByteRange claim(int rank, int other) {
        ++asked_[std::size_t(other)];
        for (;;) {
            for (WorkClaims& claims : claims_) claims.process_requests(asked_);
            if (const auto part = claims_[std::size_t(rank)].next()) return *part;
            ++asked_[std::size_t(rank)];
        }
    }

private:
    std::vector<WorkClaims> claims_;
    std::vector<std::uint64_t> asked_;
};

std::uint64_t bytes_of(const std::vector<Image>& images) {
    std::uint64_t bytes = 0;
    for (const Image& image : images) bytes += image.bytes;
    return bytes;
}

}  // namespace

TEST_CASE("columns are split and joined in whole rows, however many they are") {
    const Shape shape{4096, 8192};
    for (const auto& [from, to] : {std::pair{1, 4}, {4, 1}, {4, 2}, {2, 3}}) {
        const Cut source{shape, 1, from}, target{shape, 1, to};
        const Moves moves = plan_of(source, target);
        const Tiler tiler{moves, source.side(), target.side(), {8 * mebi, 2 * mebi}};
        std::uint64_t read = 0;
        for (const Tile& tile : tiles(tiler, 0, 1)) {
            CHECK(tile.memory <= 2 * mebi);
            CHECK(std::ranges::all_of(tile.sources, &Image::is_run));
            CHECK(std::ranges::all_of(tile.targets, &Image::is_run));
            read += bytes_of(tile.sources);
        }
        CHECK(read == std::uint64_t(volume(shape)));
    }
}

TEST_CASE("ranks get each tile once, in equal shares") {
    const Cut source{{4096, 1024}, 0, 3}, target{{4096, 1024}, 1, 4};
    const Moves moves = plan_of(source, target);
    const Tiler tiler{moves, source.side(), target.side(), {mebi, 256 << 10}};
    CHECK(tiler.bytes() == 4096 * 1024);
    for (int ranks : {1, 2, 3, 7}) {
        std::vector<Box> boxes;
        for (int rank = 0; rank < ranks; ++rank) {
            std::uint64_t bytes = 0;
            for (const Tile& tile : tiles(tiler, rank, ranks)) {
                bytes += tile.bytes;
                for (const TilePart& part : tile.parts) boxes.push_back(part.box);
            }
            CHECK(double(bytes) == doctest::Approx(4096. * 1024 / ranks).epsilon(0.2));
        }
        Index elements = 0;
        for (const Box& box : boxes) elements += volume(box);
        CHECK(elements == 4096 * 1024);
        std::ranges::sort(boxes);
        CHECK(std::ranges::adjacent_find(boxes) == boxes.end());
    }
}

TEST_CASE("a transposed tensor is cut into squares that fill the memory") {
    const Cut source{{8192, 8192}, 0, 1};
    Cut target{{8192, 8192}, 0, 1};
    target.pieces[0].strides = {1, 8192};
    const Moves moves = plan_of(source, target);
    const Tiler tiler{moves, source.side(), target.side(), {33 * mebi, 64 << 10}};
    for (const Tile& tile : tiles(tiler, 0, 1)) {
        CHECK(tile.memory <= 33 * mebi);
        CHECK(sizes(tile.parts[0].box) == Shape{4096, 4096});
    }
}

TEST_CASE("one element with many targets is split by its targets") {
    Cut source{{1}, 0, 1}, target{{1}, 0, 1};
    target.pieces.resize(1000, target.pieces[0]);
    for (std::uint32_t k = 0; k < 1000; ++k) target.pieces[k].file = k;
    const Moves moves = plan_of(source, target);
    const Tiler tiler{moves, source.side(), target.side(), {mebi, mebi}};
    std::size_t written = 0;
    for (const Tile& tile : tiles(tiler, 0, 1)) {
        CHECK(tile.memory <= mebi);
        written += tile.targets.size();
    }
    CHECK(written == 1000);
}

TEST_CASE("a visitor can stop early") {
    const Cut source{{64, 64}, 0, 1}, target{{64, 64}, 0, 1};
    const Moves moves = plan_of(source, target);
    const Tiler tiler{moves, source.side(), target.side(), {17 << 10, 17 << 10}};
    int visits = 0;
    const ByteRanges none;
    tiler.for_each(ClaimedShare{none,
                                [&] {
                                    return ByteRange{0, tiler.bytes()};
                                }},
                   [&](Tile&&) { return ++visits < 3; });
    CHECK(visits == 3);
}

TEST_CASE("whatever is already done, all shares together contain each remaining tile once, under any limits") {
    std::mt19937_64 random{11};
    const auto below = [&](std::uint64_t end) { return random() % end; };
    for (int round = 0; round < 200; ++round) {
        const Cut source{{64, 96}, int(below(2)), int(1 + below(5))},
            target{{64, 96}, int(below(2)), int(1 + below(5))};
        const Moves moves = plan_of(source, target);
        const std::uint64_t limit = (17 + below(16)) << 10;
        const Tiler tiler{moves, source.side(), target.side(), {limit, limit}};
        ByteRanges done;
        for (const Tile& tile : tiles(tiler, 0, 1))
            if (below(3) == 0) done.add(tile.range());
        // Smaller tiles are parts of finished ones, larger ones may be partly finished.
        const std::uint64_t other = (17 + below(32)) << 10;
        const Tiler again{moves, source.side(), target.side(), {other, other}};
        ByteRanges taken;
        const int ranks = int(1 + below(5));
        ClaimingRanks claiming{again.bytes(), ranks, 1 + below(2 * again.bytes())};
        for (int rank = 0; rank < ranks; ++rank) {
            const auto claim = [&] { return claiming.claim(rank, rank + int(below(unsigned(ranks - rank)))); };
            again.for_each(ClaimedShare{done, claim}, [&](Tile&& tile) {
                CHECK(taken.count_before(tile.range().end) == taken.count_before(tile.begin));
                CHECK_FALSE(done.contains(tile.range()));
                taken.add(tile.range());
                return true;
            });
        }
        for (const ByteRange& range : done.ranges()) taken.add(range);
        CHECK(taken.count() == again.bytes());
    }
}
