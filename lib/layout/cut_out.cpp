// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/parts.hpp"

#include "lib/core/error.hpp"

#include <algorithm>

namespace tpx {
namespace {

using Factor = FactoredAxis::Factor;

/// Finds the boxes of digits, with one interval for each factor of an axis, whose positions are in `wanted`.
struct PieceCut {
    const std::vector<Factor>& places;
    std::vector<std::vector<Interval>>& found;
    std::vector<Interval> digits = {};

    void cut(std::size_t k, Interval wanted) {
        if (k == places.size()) {
            if (wanted.begin <= 0 && 0 < wanted.end) found.push_back(digits);
            return;
        }
        Index inner = 1;
        for (std::size_t j = k + 1; j < places.size(); ++j) inner += (places[j].size - 1) * places[j].step;
        const Index step = places[k].step;
        const Interval all{0, places[k].size};
        // `full`: digits whose whole block is in `wanted`; `touched`: those whose block overlaps it, at most one more
        // on either side.
        const Interval touched =
            intersect(all, {floor_div(wanted.begin - inner, step) + 1, floor_div(wanted.end - 1, step) + 1});
        Interval full = intersect(touched, {ceil_div(wanted.begin, step), floor_div(wanted.end - inner, step) + 1});
        if (full.empty()) full = {touched.end, touched.end};
        for (Index d = touched.begin; d < full.begin; ++d) one(k, d, wanted);
        if (!full.empty()) {
            digits.push_back(full);
            for (std::size_t j = k + 1; j < places.size(); ++j) digits.push_back({0, places[j].size});
            found.push_back(digits);
            digits.resize(k);
        }
        for (Index d = std::max(full.end, touched.begin); d < touched.end; ++d) one(k, d, wanted);
    }

private:
    static Index floor_div(Index a, Index b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
    static Index ceil_div(Index a, Index b) { return -floor_div(-a, b); }

    void one(std::size_t k, Index digit, Interval wanted) {
        digits.push_back({digit, digit + 1});
        cut(k + 1, shift(wanted, -digit * places[k].step));
        digits.pop_back();
    }
};

/// The factors of a part on one stored axis, slowest first, and the boxes of their digits that a piece contains.
struct AxisPieces {
    std::vector<int> factors;
    std::vector<std::vector<Interval>> boxes;
};

AxisPieces cut_axis(const Part& part, int axis, Interval wanted) {
    AxisPieces pieces;
    for (int k = 0; k < part.axis.size(); ++k) {
        if (part.axis[k] == axis) pieces.factors.push_back(k);
    }
    // Slowest first. If two factors have equal steps, one of them has a single digit.
    std::ranges::stable_sort(pieces.factors, [&](int j, int k) { return part.step[j] > part.step[k]; });
    std::vector<Factor> places;
    for (int k : pieces.factors) places.push_back({0, part.step[k], part.shape[k]});
    PieceCut{places, pieces.boxes}.cut(0, shift(wanted, -part.offset[axis]));
    return pieces;
}

/// The piece made of one digit box of each axis.
Piece combine(const Part& part, const Piece& stored, const std::vector<AxisPieces>& axes,
              const std::vector<std::size_t>& choice, int itemsize) {
    Piece piece = stored;
    piece.box = Box(part.shape.size());
    piece.strides = Strides(part.shape.size());
    Index elements = 0;
    for (std::size_t a = 0; a < axes.size(); ++a) {
        const int axis = static_cast<int>(a);
        Index position = part.offset[axis] - stored.box[axis].begin;
        for (std::size_t j = 0; j < axes[a].factors.size(); ++j) {
            const int k = axes[a].factors[j];
            piece.box[k] = axes[a].boxes[choice[a]][j];
            piece.strides[k] = part.step[k] * stored.strides[axis];
            position += piece.box[k].begin * part.step[k];
        }
        elements += position * stored.strides[axis];
    }
    piece.offset += static_cast<std::uint64_t>(elements * itemsize);
    return piece;
}

/// A whole contiguous tensor, viewed in another shape.
Piece viewed(const Piece& stored, const Shape& view) {
    const Shape sides = sizes(stored.box);
    const bool from_zero = std::ranges::all_of(stored.box, [](Interval side) { return side.begin == 0; });
    if (!from_zero || volume(sides) != volume(view) || stored.strides != row_major(sides))
        throw failure("a tensor that holds its parts in another order than its shape says must be stored whole");
    Piece piece = stored;
    piece.box = whole(view);
    piece.strides = row_major(view);
    return piece;
}

}  // namespace

void cut_out(const Part& part, const Piece& whole_or_cut, std::uint32_t tensor, int itemsize, std::vector<Piece>& out) {
    if (empty(whole_or_cut.box)) return;
    const Piece stored = part.view.empty() ? whole_or_cut : viewed(whole_or_cut, part.view);
    std::vector<AxisPieces> axes;
    for (int a = 0; a < stored.box.size(); ++a) {
        axes.push_back(cut_axis(part, a, stored.box[a]));
        if (axes.back().boxes.empty()) return;
    }
    std::vector<std::size_t> choice(axes.size(), 0);
    while (true) {
        out.push_back(combine(part, stored, axes, choice, itemsize));
        out.back().tensor = tensor;
        std::size_t a = 0;
        while (a < axes.size() && ++choice[a] == axes[a].boxes.size()) choice[a++] = 0;
        if (a == axes.size()) return;
    }
}

}  // namespace tpx
