// SPDX-License-Identifier: Apache-2.0
#include "lib/change/moves.hpp"

#include "lib/change/box_set.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tpx {
namespace {

using PieceNumbers = std::span<const std::uint32_t>;

void check(const Side& source, const Side& target) {
    if (source.tensors.size() != target.tensors.size())
        throw failure("the source has {} tensors, the target {}", source.tensors.size(), target.tensors.size());
    for (std::size_t i = 0; i < source.tensors.size(); ++i) {
        const Tensor& a = source.tensors[i];
        const Tensor& b = target.tensors[i];
        if (a.name != b.name) throw failure("tensor {} is '{}' in the source, '{}' in the target", i, a.name, b.name);
        if (a.shape != b.shape)
            throw failure("tensor '{}': shape {} in the source, {} in the target", a.name, to_string(a.shape),
                          to_string(b.shape));
        if (checked_volume(a.shape) < 0) throw failure("tensor '{}': impossible shape {}", a.name, to_string(a.shape));
    }
    check_pieces(source);
    check_pieces(target);
}

// Positions in `pieces`, ordered by `key`.
template <class Key>
std::vector<std::uint32_t> order_by(std::span<const Piece> pieces, Key key) {
    std::vector<std::uint32_t> order(pieces.size());
    std::iota(order.begin(), order.end(), 0u);
    const auto less = [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); };
    if (!std::is_sorted(order.begin(), order.end(), less)) std::sort(order.begin(), order.end(), less);
    return order;
}

// Removes the leading ids of pieces of `tensor` from `ids` and returns them.
PieceNumbers take_tensor(PieceNumbers& ids, std::span<const Piece> pieces, std::uint32_t tensor) {
    std::size_t count = 0;
    while (count < ids.size() && pieces[ids[count]].tensor == tensor) ++count;
    const PieceNumbers taken = ids.first(count);
    ids = ids.subspan(count);
    return taken;
}

// The source pieces of one tensor. Pieces with the same box are replicas and form one group. Each target uses one piece
// of a group, so the work does not grow with the number of replicas.
class Sources {
public:
    // `ids`: the pieces of this tensor, ordered by box, rank and position. `distance` may be empty.
    Sources(std::span<const Piece> pieces, PieceNumbers ids, const PieceDistance& distance)
        : pieces_{pieces}, ids_{ids}, index_{group(pieces, ids)}, distance_{distance} {
        find_rivals();
    }

    // Appends the moves that fill `target`, which is piece number `position`; returns how many elements they move.
    Index fill(const Piece& target, std::uint32_t position, std::vector<Move>& moves);

    // The elements of `box` that are in no source.
    std::vector<Box> holes(const Box& box) const { return difference(std::span{&box, 1}, index_); }

private:
    // Lower is better.
    struct Rating {
        int distance;
        std::uint32_t piece;
        friend auto operator<=>(const Rating&, const Rating&) = default;
    };

    std::vector<Box> group(std::span<const Piece> pieces, PieceNumbers ids);
    void find_rivals();
    Rating choose(std::uint32_t group, std::int32_t rank, std::uint32_t target) const;
    Rating nearest(PieceNumbers members, std::uint32_t target) const;

    std::span<const Piece> pieces_;
    PieceNumbers ids_;
    std::vector<std::uint32_t> starts_;  // group g has ids_[starts_[g]] up to, but not including, ids_[starts_[g + 1]]
    std::vector<std::uint32_t> lowest_;  // the lowest piece of each group
    BoxIndex index_;                     // the groups' boxes
    const PieceDistance& distance_;
    std::vector<std::vector<std::uint32_t>> rivals_;  // groups that overlap each group; empty if no two overlap
    std::vector<std::uint32_t> found_;
    std::vector<Box> rest_, scratch_;
};

std::vector<Box> Sources::group(std::span<const Piece> pieces, PieceNumbers ids) {
    std::vector<Box> boxes;
    for (std::uint32_t i = 0; i < ids.size(); ++i) {
        const Piece& piece = pieces[ids[i]];
        if (boxes.empty() || piece.box != boxes.back()) {
            boxes.push_back(piece.box);
            starts_.push_back(i);
            lowest_.push_back(ids[i]);
        }
        lowest_.back() = std::min(lowest_.back(), ids[i]);
    }
    starts_.push_back(static_cast<std::uint32_t>(ids.size()));
    return boxes;
}

void Sources::find_rivals() {
    const std::vector<Box>& boxes = index_.boxes();
    for (std::uint32_t g = 0; g < boxes.size(); ++g) {
        index_.overlapping(boxes[g], found_);
        if (found_.size() < 2) continue;
        rivals_.resize(boxes.size());
        std::erase(found_, g);
        rivals_[g] = found_;
    }
}

// Of the nearest members, another one for each target.
Sources::Rating Sources::nearest(PieceNumbers members, std::uint32_t target) const {
    int least = distance_(members.front(), target);
    std::vector<std::uint32_t> equal;
    for (const std::uint32_t member : members) {
        const int distance = distance_(member, target);
        if (distance < least) equal.clear();
        least = std::min(least, distance);
        if (distance == least) equal.push_back(member);
    }
    return {least, equal[target % equal.size()]};
}

Sources::Rating Sources::choose(std::uint32_t group, std::int32_t rank, std::uint32_t target) const {
    constexpr int same_rank = 0, other_rank = 1;
    const PieceNumbers members = ids_.subspan(starts_[group], starts_[group + 1] - starts_[group]);
    if (distance_) return nearest(members, target);
    if (rank < 0) return {other_rank, lowest_[group]};
    const auto same = std::ranges::lower_bound(members, rank, {}, [&](std::uint32_t id) { return pieces_[id].rank; });
    if (same == members.end() || pieces_[*same].rank != rank) return {other_rank, lowest_[group]};
    return {same_rank, *same};
}

Index Sources::fill(const Piece& target, std::uint32_t position, std::vector<Move>& moves) {
    const std::vector<Box>& boxes = index_.boxes();
    const std::size_t first = moves.size();
    Index filled = 0;
    index_.overlapping(target.box, found_);
    for (std::uint32_t group : found_) {
        const Rating choice = choose(group, target.rank, position);
        rest_.assign(1, intersect(boxes[group], target.box));
        if (!rivals_.empty()) {
            for (std::uint32_t rival : rivals_[group]) {
                if (choose(rival, target.rank, position) < choice) carve(rest_, boxes[rival], scratch_);
            }
        }
        for (const Box& box : rest_) moves.push_back({choice.piece, position, box});
        filled += volume(rest_);
    }
    std::sort(moves.begin() + static_cast<std::ptrdiff_t>(first), moves.end(),
              [](const Move& a, const Move& b) { return a.box < b.box; });
    return filled;
}

Error hole(const Tensor& tensor, const Box& wanted, std::vector<Box> missing) {
    std::sort(missing.begin(), missing.end());
    return failure("tensor '{}': no file contains {} ({} of {} elements)", tensor.name, to_string(missing.front()),
                   volume(missing), volume(wanted));
}

}  // namespace

void check_pieces(const Side& side) {
    for (const Piece& piece : side.pieces) {
        if (piece.tensor >= side.tensors.size())
            throw failure("a piece belongs to tensor {} of {}", piece.tensor, side.tensors.size());
        const Tensor& tensor = side.tensors[piece.tensor];
        if (piece.box.size() != tensor.shape.size() || !contains(whole(tensor.shape), piece.box))
            throw failure("tensor '{}': a piece {} lies outside its shape {}", tensor.name, to_string(piece.box),
                          to_string(tensor.shape));
    }
}

Moves make_moves(const Side& source, const Side& target) { return make_moves(source, target, {}); }

Moves make_moves(const Side& source, const Side& target, const PieceDistance& distance) {
    check(source, target);
    const std::vector<std::uint32_t> by_box = order_by(source.pieces, [&](std::uint32_t id) {
        const Piece& piece = source.pieces[id];
        return std::tuple<std::uint32_t, const Box&, std::int32_t, std::uint32_t>{piece.tensor, piece.box, piece.rank,
                                                                                  id};
    });
    const std::vector<std::uint32_t> by_tensor = order_by(target.pieces, [&](std::uint32_t id) {
        return std::pair{target.pieces[id].tensor, id};
    });

    Moves moves;
    moves.reserve(target.pieces.size());
    PieceNumbers sources = by_box;
    PieceNumbers targets = by_tensor;
    for (std::uint32_t tensor = 0; tensor < source.tensors.size(); ++tensor) {
        const PieceNumbers wanted = take_tensor(targets, target.pieces, tensor);
        Sources holders{source.pieces, take_tensor(sources, source.pieces, tensor), distance};
        for (std::uint32_t id : wanted) {
            const Piece& piece = target.pieces[id];
            if (holders.fill(piece, id, moves) != volume(piece.box))
                throw hole(source.tensors[tensor], piece.box, holders.holes(piece.box));
        }
    }
    const auto by_target = [](const Move& a, const Move& b) { return a.target < b.target; };
    if (!std::is_sorted(moves.begin(), moves.end(), by_target)) std::stable_sort(moves.begin(), moves.end(), by_target);
    return moves;
}

}  // namespace tpx
