// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tpx::testing {

/// Owns the tensors and pieces of a Side.
struct Pieces {
    std::vector<Tensor> tensors;
    std::vector<Piece> pieces;

    Side side() const { return {tensors, pieces}; }
};

/// Makes small random sides: every kind of tiling, replica and overlap for a planner, a few elements wide.
class RandomSides {
public:
    explicit RandomSides(unsigned seed) : engine_{seed} {}

    int number(int from, int to) { return std::uniform_int_distribution{from, to}(engine_); }
    bool chance(int percent) { return number(1, 100) <= percent; }

    Shape shape(int most_axes = 3, int longest = 6) {
        Shape shape;
        for (int axes = number(0, most_axes); axes > 0; --axes) shape.push_back(number(1, longest));
        return shape;
    }

    std::vector<Tensor> tensors(int count) {
        std::vector<Tensor> list;
        for (int i = 0; i < count; ++i)
            list.push_back({fmt::format("t{}", i), chance(50) ? DType::bf16 : DType::f32, shape()});
        return list;
    }

    Box box_in(const Box& outer) {
        Box box = outer;
        for (Interval& side : box) {
            const int a = number(static_cast<int>(side.begin), static_cast<int>(side.end));
            const int b = number(static_cast<int>(side.begin), static_cast<int>(side.end));
            side = {std::min(a, b), std::max(a, b)};
        }
        return box;
    }

    /// `box`, split at random into parts that are not empty.
    std::vector<Box> tiling(const Box& box) {
        std::vector<Box> tiles{box};
        for (int cuts = box.empty() ? 0 : number(0, 6); cuts > 0; --cuts) {
            Box& tile = tiles[number(0, static_cast<int>(tiles.size()) - 1)];
            const int axis = number(0, box.size() - 1);
            if (tile[axis].size() < 2) continue;
            const int at = number(static_cast<int>(tile[axis].begin) + 1, static_cast<int>(tile[axis].end) - 1);
            Box upper = tile;
            upper[axis].begin = at;
            tile[axis].end = at;
            tiles.push_back(upper);
        }
        return tiles;
    }

    /// Pieces that contain every element of `tensors` at least once, in random order, with replicas and overlaps.
    Pieces cover(const std::vector<Tensor>& tensors, int ranks) {
        Pieces result{tensors, {}};
        for (std::uint32_t i = 0; i < tensors.size(); ++i) {
            const Box all = whole(tensors[i].shape);
            for (int copies = number(1, 3); copies > 0; --copies) {
                for (const Box& tile : tiling(all)) add(result, i, tile, ranks);
            }
            if (chance(50)) add(result, i, box_in(all), ranks);
        }
        std::shuffle(result.pieces.begin(), result.pieces.end(), engine_);
        return result;
    }

private:
    void add(Pieces& to, std::uint32_t tensor, const Box& box, int ranks) {
        Piece piece;
        piece.tensor = tensor;
        piece.box = box;
        piece.rank = number(0, ranks - 1);
        to.pieces.push_back(piece);
        if (chance(25)) add(to, tensor, box, ranks);
    }

    std::mt19937 engine_;
};

/// Every element of `box`, one after the other in C order.
template <class Visit>
void each_element(const Box& box, Visit visit) {
    if (std::any_of(box.begin(), box.end(), [](Interval side) { return side.empty(); })) return;
    Box element;
    for (Interval side : box) element.push_back({side.begin, side.begin + 1});
    while (true) {
        visit(element);
        int k = box.size() - 1;
        for (; k >= 0; --k) {
            if (element[k].end < box[k].end) {
                element[k] = shift(element[k], 1);
                break;
            }
            element[k] = {box[k].begin, box[k].begin + 1};
        }
        if (k < 0) return;
    }
}

}  // namespace tpx::testing
