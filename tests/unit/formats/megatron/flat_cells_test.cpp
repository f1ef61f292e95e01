// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/flat_cells.hpp"

#include "formats/megatron/driver.hpp"
#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <map>

namespace tpx::formats::megatron {
namespace {

/// A tensor of 4 x 6 in cells of 2 x 3, each cut into two flat runs at element `cut`.
Checkpoint cells(Index cut) {
    Checkpoint checkpoint;
    checkpoint.format = &torch_dist_driver;
    Catalogue& catalogue = checkpoint.catalogue;
    catalogue.tensors = {{"w", DType::bf16, {4, 6}}, {"chained_0.optimizer.state.exp_avg.w", DType::f32, {2, 2, 6}}};
    catalogue.pieces.push_back({.tensor = 0, .box = whole(Shape{4, 6}), .strides = {6, 1}});
    checkpoint.archives.push_back(1);
    for (Index row = 0; row < 2; ++row) {
        for (Index column = 0; column < 2; ++column) {
            for (const Interval run : {Interval{0, cut}, Interval{cut, 6}}) {
                // The offset identifies the archive: the cell, and the run in it.
                const auto offset = static_cast<std::uint64_t>(100 * row + 10 * column + run.begin);
                catalogue.pieces.push_back(
                    {.tensor = 1, .offset = offset, .box = {{row, row + 1}, {column, column + 1}, run}});
                checkpoint.archives.push_back(1);
            }
        }
    }
    return checkpoint;
}

}  // namespace

TEST_CASE("flat cells of old optimizers are boxes of the model's tensors") {
    for (Index cut = 1; cut < 6; ++cut) {
        Checkpoint checkpoint = cells(cut);
        drop_chain_prefixes(checkpoint);
        unpack_cells(checkpoint);
        const Catalogue& catalogue = checkpoint.catalogue;
        CHECK(catalogue.tensors[1].name == "optimizer.state.exp_avg.w");
        CHECK(catalogue.tensors[1].shape == Shape{4, 6});
        REQUIRE(checkpoint.archive_slices.size() == catalogue.pieces.size());
        std::map<std::pair<Index, Index>, std::string> found;
        for (std::size_t p = 0; p < catalogue.pieces.size(); ++p) {
            const Piece& piece = catalogue.pieces[p];
            if (piece.tensor == 0) continue;
            const ArchiveSlice& inside = checkpoint.archive_slices[p];
            for (Index i = piece.box[0].begin; i < piece.box[0].end; ++i) {
                for (Index k = piece.box[1].begin; k < piece.box[1].end; ++k) {
                    const Index at = inside.begin + (i - piece.box[0].begin) * piece.strides[0] +
                                     (k - piece.box[1].begin) * piece.strides[1];
                    CHECK(at < inside.elements);
                    CHECK(found.emplace(std::pair{i, k}, fmt::format("{}+{}", piece.offset, at)).second);
                }
            }
        }
        for (Index i = 0; i < 4; ++i) {
            for (Index k = 0; k < 6; ++k) {
                const Index inside = i % 2 * 3 + k % 3;
                const Index run = inside < cut ? 0 : cut;
                const auto wanted = fmt::format("{}+{}", 100 * (i / 2) + 10 * (k / 3) + run, inside - run);
                CHECK(found.at({i, k}) == wanted);
            }
        }
    }
}

TEST_CASE("two chained optimizers must not share a tensor") {
    Checkpoint checkpoint = cells(1);
    checkpoint.catalogue.tensors.push_back({"chained_1.optimizer.state.exp_avg.w", DType::f32, {2, 2, 6}});
    CHECK_THROWS_WITH_AS(drop_chain_prefixes(checkpoint), "tensor 'optimizer.state.exp_avg.w': appears twice", Error);
}

TEST_CASE("flat cells in raw bytes, as in zarr chunks, begin at their first element") {
    Checkpoint checkpoint = cells(4);
    checkpoint.archives.assign(checkpoint.archives.size(), 0);
    drop_chain_prefixes(checkpoint);
    unpack_cells(checkpoint);
    std::map<Box, std::uint64_t> offsets;
    for (const Piece& piece : checkpoint.catalogue.pieces)
        if (piece.tensor == 1) offsets[piece.box] = piece.offset;
    // Of the first cell's first run, elements 0 to 2 and element 3, of f32; its second run is stored at 4.
    CHECK(offsets.at({{0, 1}, {0, 3}}) == 0);
    CHECK(offsets.at({{1, 2}, {0, 1}}) == 3 * 4);
    CHECK(offsets.at({{1, 2}, {1, 3}}) == 4);
}

}  // namespace tpx::formats::megatron
