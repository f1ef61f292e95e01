// SPDX-License-Identifier: Apache-2.0
#include "lib/core/coverage.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <span>

// The number of boxes that hold each element is a sum of indicator functions of boxes. Taking differences along every
// axis turns the indicator of a box into +1 and -1 at its 2^k corners, and nothing is lost: two such sums are equal
// exactly when their corners are. So boxes tile a tensor if and only if their corners cancel down to those of the
// tensor itself. Otherwise the first corner left over is the first element that is held too often or not at all.

namespace tpx {
namespace {

constexpr std::size_t most_holes = 1000;

struct Corner {
    std::uint64_t at = 0;  ///< position among the lattice points of the tensor's split axes, row-major
    int sign = 0;
};

/// Sorts the corners, adds up those at one point and drops those that cancel.
void cancel(std::vector<Corner>& corners) {
    std::sort(corners.begin(), corners.end(), [](const Corner& a, const Corner& b) { return a.at < b.at; });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < corners.size();) {
        Corner sum = corners[i];
        for (++i; i < corners.size() && corners[i].at == sum.at; ++i) sum.sign += corners[i].sign;
        if (sum.sign != 0) corners[kept++] = sum;
    }
    corners.resize(kept);
}

/// Compares the pieces of one tensor with its shape. The lattice omits axes that no piece splits.
class Tiling {
public:
    Tiling(const Tensor& tensor, std::span<const Piece> pieces, std::vector<Corner>& corners)
        : tensor_{tensor}, pieces_{pieces}, corners_{corners} {
        corners_.clear();
        check_bounds();
        choose_axes();
        add(whole(tensor.shape), -1);
        for (std::size_t i = 0; i < pieces.size(); ++i)
            if (i == 0 || pieces[i].box != pieces[i - 1].box) add(pieces[i].box, 1);
        cancel(corners_);
    }

    std::vector<Box> holes() {
        std::vector<Box> holes;
        while (!corners_.empty()) {
            const Shape point = point_at(corners_.front().at);
            if (corners_.front().sign > 0) throw overlap_at(point);
            if (holes.size() == most_holes) throw failure("more than {} boxes are missing", most_holes);
            holes.push_back(hole_at(point, holes));
            add(holes.back(), 1);
            cancel(corners_);
        }
        return holes;
    }

private:
    void check_bounds() const {
        const Box bounds = whole(tensor_.shape);
        for (const Piece& piece : pieces_)
            if (piece.box.size() != bounds.size() || !contains(bounds, piece.box))
                throw failure("box {} exceeds the shape {}", to_string(piece.box), to_string(tensor_.shape));
    }

    void choose_axes() {
        std::uint64_t points = 1;
        for (int axis = 0; axis < tensor_.shape.size(); ++axis) {
            const Interval all{0, tensor_.shape[axis]};
            const bool cut =
                std::any_of(pieces_.begin(), pieces_.end(), [&](const Piece& piece) { return piece.box[axis] != all; });
            if (!cut) continue;
            axes_.push_back(axis);
            if (__builtin_mul_overflow(points, std::uint64_t(all.end) + 1, &points))
                throw failure("shape {} is too large", to_string(tensor_.shape));
        }
    }

    void add(const Box& box, int sign) {
        if (empty(box)) return;
        for (unsigned ends = 0; ends < 1U << axes_.size(); ++ends) {
            Corner corner{0, sign};
            for (int i = 0; i < axes_.size(); ++i) {
                const Interval side = box[axes_[i]];
                const bool end = (ends >> i & 1U) != 0;
                corner.at = corner.at * (std::uint64_t(tensor_.shape[axes_[i]]) + 1) +
                            std::uint64_t(end ? side.end : side.begin);
                if (end) corner.sign = -corner.sign;
            }
            corners_.push_back(corner);
        }
    }

    Shape point_at(std::uint64_t position) const {
        Shape point(tensor_.shape.size());
        for (int i = axes_.size(); i-- > 0;) {
            const std::uint64_t points = std::uint64_t(tensor_.shape[axes_[i]]) + 1;
            point[axes_[i]] = Index(position % points);
            position /= points;
        }
        return point;
    }

    static bool holds(const Box& box, const Shape& point) {
        for (int axis = 0; axis < box.size(); ++axis)
            if (point[axis] < box[axis].begin || point[axis] >= box[axis].end) return false;
        return true;
    }

    Error overlap_at(const Shape& point) const {
        const Box* first = nullptr;
        for (const Piece& piece : pieces_) {
            if (!holds(piece.box, point)) continue;
            if (first != nullptr && *first != piece.box)
                return failure("boxes {} and {} overlap", to_string(*first), to_string(piece.box));
            first = &piece.box;
        }
        return failure("boxes overlap at element {}", to_string(point));
    }

    /// A box that begins at `point`, which no file contains, and ends before every piece and every known hole.
    Box hole_at(const Shape& point, const std::vector<Box>& known) const {
        Box hole = whole(tensor_.shape);
        for (int axis = 0; axis < hole.size(); ++axis) hole[axis].begin = point[axis];
        for (const Piece& piece : pieces_) shrink(hole, piece.box);
        for (const Box& box : known) shrink(hole, box);
        return hole;
    }

    /// Keeps the larger part of `hole` that `other` does not touch and that still begins where it did.
    static void shrink(Box& hole, const Box& other) {
        if (empty(other) || empty(intersect(hole, other))) return;
        int best = -1;
        for (int axis = 0; axis < hole.size(); ++axis) {
            if (other[axis].begin <= hole[axis].begin) continue;
            const auto kept = [&](int a) { return double(other[a].begin - hole[a].begin) / double(hole[a].size()); };
            if (best < 0 || kept(axis) > kept(best)) best = axis;
        }
        hole[best].end = other[best].begin;
    }

    const Tensor& tensor_;
    std::span<const Piece> pieces_;
    std::vector<Corner>& corners_;
    Tuple<int> axes_;
};

}  // namespace

std::vector<Hole> find_holes(const Catalogue& catalogue) {
    std::vector<Hole> all;
    std::vector<Corner> corners;
    const std::span<const Piece> pieces = catalogue.pieces;
    std::size_t begin = 0;
    for (std::uint32_t tensor = 0; tensor < catalogue.tensors.size(); ++tensor) {
        std::size_t end = begin;
        while (end < pieces.size() && pieces[end].tensor == tensor) ++end;
        in_context([&] { return fmt::format("tensor '{}'", catalogue.tensors[tensor].name); },
                   [&] {
                       Tiling tiling{catalogue.tensors[tensor], pieces.subspan(begin, end - begin), corners};
                       for (const Box& box : tiling.holes()) all.push_back({tensor, box});
                   });
        begin = end;
    }
    return all;
}

void check_no_holes(const Catalogue& catalogue) {
    const std::vector<Hole> holes = find_holes(catalogue);
    if (holes.empty()) return;
    const Hole& first = holes.front();
    throw failure(
        "tensor '{}': no file contains {}{}", catalogue.tensors[first.tensor].name, to_string(first.box),
        holes.size() > 1 ? fmt::format(" (and {} more box{})", holes.size() - 1, holes.size() == 2 ? "" : "es") : "");
}

}  // namespace tpx
