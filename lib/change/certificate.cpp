// SPDX-License-Identifier: Apache-2.0
#include "lib/change/certificate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

// Coverage is proven by corners. Each corner of a box gets the weight +1 or -1, by the parity of the number of axes on
// which it is at the end. These weights are the differences, taken along every axis, of the function that is 1 in the
// box and 0 elsewhere. A function that is 0 far away is determined by its differences. So boxes cover a target box
// exactly once if and only if their weights, summed point by point, are those of the target.

namespace tpx {
namespace {

struct Corner {
    Tuple<Index> point;
    int weight;
};

void add_corners(const Box& box, int sign, std::vector<Corner>& corners) {
    const unsigned count = 1u << box.size();
    for (unsigned ends = 0; ends < count; ++ends) {
        Corner corner{Tuple<Index>(box.size()), sign};
        for (int k = 0; k < box.size(); ++k) {
            const bool is_end = (ends >> k) & 1u;
            corner.point[k] = is_end ? box[k].end : box[k].begin;
            if (is_end) corner.weight = -corner.weight;
        }
        corners.push_back(corner);
    }
}

bool cancel(std::vector<Corner>& corners) {
    std::sort(corners.begin(), corners.end(), [](const Corner& a, const Corner& b) { return a.point < b.point; });
    for (std::size_t i = 0; i < corners.size();) {
        const std::size_t first = i;
        std::int64_t sum = 0;
        for (; i < corners.size() && corners[i].point == corners[first].point; ++i) sum += corners[i].weight;
        if (sum != 0) return false;
    }
    return true;
}

bool inside(const Box& inner, const Box& outer) {
    if (inner.size() != outer.size()) return false;
    for (int k = 0; k < inner.size(); ++k) {
        if (inner[k].begin < outer[k].begin || inner[k].end > outer[k].end) return false;
    }
    return true;
}

std::optional<std::uint64_t> count(const Box& box) {
    std::uint64_t elements = 1;
    for (Interval side : box) {
        if (side.end < side.begin) return std::nullopt;
        if (__builtin_mul_overflow(
                elements, static_cast<std::uint64_t>(side.end) - static_cast<std::uint64_t>(side.begin), &elements))
            return std::nullopt;
    }
    return elements;
}

std::uint64_t bytes_each(const Side& side, const Piece& piece) {
    return static_cast<std::uint64_t>(itemsize(side.tensors[piece.tensor].dtype));
}

class Checker {
public:
    Checker(const Side& source, const Side& target, const Moves& moves)
        : source_{source}, target_{target}, moves_{moves} {}

    Certificate run() {
        if (sides() && moves()) coverage();
        return std::move(result_);
    }

private:
    template <class... Args>
    bool fault(fmt::format_string<Args...> format, Args&&... args) {
        result_.fault = fmt::format(format, std::forward<Args>(args)...);
        return false;
    }

    bool side(std::string_view name, const Side& side);
    bool sides();
    bool move(std::size_t position);
    bool moves();
    bool coverage();

    const Side& source_;
    const Side& target_;
    const Moves& moves_;
    Certificate result_;
};

bool Checker::side(std::string_view name, const Side& side) {
    for (std::size_t i = 0; i < side.pieces.size(); ++i) {
        const Piece& piece = side.pieces[i];
        if (piece.tensor >= side.tensors.size())
            return fault("{} piece {}: tensor {} of {}", name, i, piece.tensor, side.tensors.size());
        const Tensor& tensor = side.tensors[piece.tensor];
        Box all;
        for (Index size : tensor.shape) all.push_back({0, size});
        if (!inside(piece.box, all) || !count(piece.box))
            return fault("tensor '{}': {} piece {} is not within its shape", tensor.name, name, i);
    }
    return true;
}

bool Checker::sides() {
    if (source_.tensors.size() != target_.tensors.size())
        return fault("{} source tensors, {} target tensors", source_.tensors.size(), target_.tensors.size());
    for (std::size_t i = 0; i < source_.tensors.size(); ++i) {
        const Tensor& a = source_.tensors[i];
        const Tensor& b = target_.tensors[i];
        if (a.name != b.name || a.shape != b.shape) return fault("tensor '{}': the sides disagree about it", a.name);
    }
    return side("source", source_) && side("target", target_);
}

bool Checker::move(std::size_t position) {
    const Move& move = moves_[position];
    if (move.source >= source_.pieces.size())
        return fault("move {}: source piece {} of {}", position, move.source, source_.pieces.size());
    if (move.target >= target_.pieces.size())
        return fault("move {}: target piece {} of {}", position, move.target, target_.pieces.size());
    const Piece& from = source_.pieces[move.source];
    const Piece& to = target_.pieces[move.target];
    const std::string& tensor = target_.tensors[to.tensor].name;
    if (from.tensor != to.tensor)
        return fault("tensor '{}': move {} comes from tensor '{}'", tensor, position,
                     source_.tensors[from.tensor].name);
    const std::optional<std::uint64_t> elements = count(move.box);
    if (!elements || *elements == 0) return fault("tensor '{}': move {} is empty", tensor, position);
    if (!inside(move.box, from.box)) return fault("tensor '{}': move {} leaves its source piece", tensor, position);
    if (!inside(move.box, to.box)) return fault("tensor '{}': move {} leaves its target piece", tensor, position);

    const std::uint64_t read = *elements * bytes_each(source_, from);
    result_.moves += 1;
    result_.elements += *elements;
    result_.bytes_read += read;
    result_.bytes_written += *elements * bytes_each(target_, to);
    if (from.rank >= 0 && from.rank == to.rank) result_.same_rank += read;
    return true;
}

bool Checker::moves() {
    for (std::size_t i = 0; i < moves_.size(); ++i) {
        if (!move(i)) return false;
    }
    return true;
}

bool Checker::coverage() {
    std::vector<std::uint32_t> order(moves_.size());
    std::iota(order.begin(), order.end(), 0u);
    const auto target_of = [&](std::uint32_t move) { return moves_[move].target; };
    std::ranges::stable_sort(order, {}, target_of);

    std::vector<Corner> corners;
    std::size_t next = 0;
    for (std::uint32_t target = 0; target < target_.pieces.size(); ++target) {
        const Piece& piece = target_.pieces[target];
        corners.clear();
        add_corners(piece.box, -1, corners);
        for (; next < order.size() && target_of(order[next]) == target; ++next)
            add_corners(moves_[order[next]].box, +1, corners);
        if (!cancel(corners))
            return fault("tensor '{}': target piece {} is not covered exactly once", target_.tensors[piece.tensor].name,
                         target);
        ++result_.targets;
    }
    return true;
}

}  // namespace

Certificate certify(const Side& source, const Side& target, const Moves& moves) {
    return Checker{source, target, moves}.run();
}

}  // namespace tpx
