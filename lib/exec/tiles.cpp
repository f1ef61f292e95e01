// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/tiles.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace tpx {

// The moves of one tensor, and the strides of its pieces on each axis.
struct Tiler::Group {
    std::vector<std::uint32_t> moves;
    Box box;
    Strides least;         // the smallest stride over all pieces of the moves, by axis
    Strides most;          // the largest
    bool decoded = false;  // whether pieces are decoded whole
};

// Which moves each tensor has, and in which order tensors are read. For a million tensors, this and one Group at a time
// take far less memory than all groups.
struct Tiler::Order {
    std::vector<std::uint32_t> first;    // by tensor: its first index in `moves`; and the end
    std::vector<std::uint32_t> moves;    // sorted by tensor; none is empty
    std::vector<std::uint32_t> tensors;  // tensors that have moves, sorted by the first byte read: file and offset
};

// Where a box is split in two.
struct Tiler::Place {
    int axis = -1;  // -1: nowhere
    Index at = 0;
    bool keeps_runs = false;  // runs keep their length, and pieces that are decoded stay whole
};

struct Tiler::Walk {
    const TileShare& share;
    std::uint64_t done = 0;  // bytes of the tiles before this one, of all shares
    const std::function<bool(Tile&&)>& visit;
};

void Tile::append(const Tile& other) {
    const auto before_sources = static_cast<std::uint32_t>(sources.size());
    const auto before_targets = static_cast<std::uint32_t>(targets.size());
    sources.insert(sources.end(), other.sources.begin(), other.sources.end());
    targets.insert(targets.end(), other.targets.begin(), other.targets.end());
    for (TilePart part : other.parts) {
        part.source += before_sources;
        part.target += before_targets;
        parts.push_back(part);
    }
    if (bytes == 0) begin = other.begin;
    memory += other.memory;
    bytes += other.bytes;
}

Tiler::Tiler(const Moves& moves, const Side& source, const Side& target, const TileLimits& limits)
    : moves_{moves}, source_{source}, target_{target}, limits_{limits} {
    for (std::uint32_t k = 0; k < moves_.size(); ++k)
        bytes_ += static_cast<std::uint64_t>(volume(moves_[k].box) * target_itemsize(target_of(k)));
}

void Tiler::for_each(const TileShare& share, const std::function<bool(Tile&&)>& visit) const {
    Walk walk{share, 0, visit};
    const Order order = order_of_moves();
    for (const std::uint32_t tensor : order.tensors) {
        const auto first = order.moves.begin() + order.first[tensor];
        const auto last = order.moves.begin() + order.first[tensor + 1];
        const Group group = group_of({first, last});
        if (!cut(walk, group, group.box, group.moves)) return;
    }
}

Tiler::Order Tiler::order_of_moves() const {
    Order order;
    order.first.resize(target_.tensors.size() + 1);
    const auto is_wanted = [&](std::uint32_t k) { return !tpx::empty(moves_[k].box); };
    for (std::uint32_t k = 0; k < moves_.size(); ++k) order.first[target_of(k).tensor + 1] += is_wanted(k);
    std::partial_sum(order.first.begin(), order.first.end(), order.first.begin());
    order.moves.resize(order.first.back());
    std::vector<std::pair<std::uint32_t, std::uint64_t>> begins(target_.tensors.size());
    std::vector<std::uint32_t> filled(target_.tensors.size());
    for (std::uint32_t k = 0; k < moves_.size(); ++k) {
        if (!is_wanted(k)) continue;
        const std::uint32_t tensor = target_of(k).tensor;
        const std::pair begin{source_of(k).file, source_of(k).offset};
        begins[tensor] = filled[tensor] == 0 ? begin : std::min(begins[tensor], begin);
        order.moves[order.first[tensor] + filled[tensor]++] = k;
    }
    for (std::uint32_t tensor = 0; tensor < filled.size(); ++tensor)
        if (filled[tensor] > 0) order.tensors.push_back(tensor);
    std::ranges::stable_sort(order.tensors, {}, [&](std::uint32_t tensor) { return begins[tensor]; });
    return order;
}

Tiler::Group Tiler::group_of(std::vector<std::uint32_t> moves) const {
    const Move& first = moves_[moves.front()];
    const Piece& piece = source_of(moves.front());
    Group group{{}, first.box, piece.strides, piece.strides};
    for (std::uint32_t move : moves) {
        const Piece& source = source_of(move);
        const Piece& target = target_of(move);
        group.box = bounding(group.box, moves_[move].box);
        group.decoded = group.decoded || (source.file < limits_.decoded.size() && limits_.decoded[source.file]);
        for (int k = 0; k < group.box.size(); ++k) {
            group.least[k] = std::min({group.least[k], source.strides[k], target.strides[k]});
            group.most[k] = std::max({group.most[k], source.strides[k], target.strides[k]});
        }
    }
    group.moves = std::move(moves);
    return group;
}

// The axis whose neighbors are farthest apart on both sides: its parts are long runs in the source and in the target. A
// transposed tensor has no such axis; there the longest axis is split, so that tiles become squares.
Tiler::Place Tiler::place_to_cut(const Group& group, const Box& box) const {
    int axis = -1;
    for (int k = 0; k < box.size(); ++k) {
        if (box[k].size() < 2) continue;
        if (axis < 0 || std::tuple{group.least[k], box[k].size()} > std::tuple{group.least[axis], box[axis].size()})
            axis = k;
    }
    if (axis < 0) return {};
    Place place{axis, box[axis].begin + (box[axis].size() + 1) / 2, !group.decoded};
    for (int k = 0; k < box.size(); ++k) {
        if (k != axis && box[k].size() > 1 && group.most[k] >= group.least[axis]) place.keeps_runs = false;
    }
    return place;
}

// The edge of a source piece nearest to the middle of the box, on the axis with the largest strides that has an edge
// inside the box.
Tiler::Place Tiler::place_between_pieces(const Group& group, const Box& box,
                                         const std::vector<std::uint32_t>& moves) const {
    Place best;
    Index distance = 0;
    for (int k = 0; k < box.size(); ++k) {
        if (best.axis >= 0 && group.least[k] <= group.least[best.axis]) continue;
        const Index middle = box[k].begin + box[k].size() / 2;
        for (std::uint32_t move : moves) {
            const Interval side = source_of(move).box[k];
            for (const Index at : {side.begin, side.end}) {
                if (at <= box[k].begin || at >= box[k].end) continue;
                const Index away = std::abs(at - middle);
                if (best.axis == k && away >= distance) continue;
                best = {k, at, true};
                distance = away;
            }
        }
    }
    return best;
}

std::uint64_t Tiler::bytes_in(const Box& box, const std::vector<std::uint32_t>& moves) const {
    std::uint64_t bytes = 0;
    for (std::uint32_t move : moves)
        bytes +=
            static_cast<std::uint64_t>(volume(intersect(moves_[move].box, box)) * target_itemsize(target_of(move)));
    return bytes;
}

// Splits `box` in two until its parts are small enough. Returns false once `visit` has returned false.
bool Tiler::cut(Walk& walk, const Group& group, const Box& box, const std::vector<std::uint32_t>& moves) const {
    if (moves.empty()) return true;
    const std::uint64_t bytes = bytes_in(box, moves);
    if (!walk.share.may_take({walk.done, walk.done + bytes})) {
        walk.done += bytes;
        return true;
    }
    Place place = group.decoded ? place_between_pieces(group, box, moves) : Place{};
    if (place.axis < 0) place = place_to_cut(group, box);
    const std::uint64_t limit = place.keeps_runs ? std::min(limits_.preferred, limits_.most) : limits_.most;
    const bool can_be_cut = place.axis >= 0 || moves.size() > 1;
    if (bytes <= limit || !can_be_cut) {
        Tile tile = tile_of(box, moves);
        if (tile.memory <= limit || !can_be_cut) {
            tile.begin = std::exchange(walk.done, walk.done + bytes);
            return !walk.share.takes(tile.range()) || walk.visit(std::move(tile));
        }
    }
    if (place.axis < 0) {  // one element that goes to very many places
        const auto middle = moves.begin() + static_cast<std::ptrdiff_t>(moves.size() / 2);
        return cut(walk, group, box, {moves.begin(), middle}) && cut(walk, group, box, {middle, moves.end()});
    }
    std::pair<Box, Box> halves{box, box};
    halves.first[place.axis].end = halves.second[place.axis].begin = place.at;
    for (const Box& half : {halves.first, halves.second}) {
        std::vector<std::uint32_t> inside;
        std::ranges::copy_if(moves, std::back_inserter(inside), [&](std::uint32_t move) {
            return !intersect(moves_[move].box[place.axis], half[place.axis]).empty();
        });
        if (!cut(walk, group, half, inside)) return false;
    }
    return true;
}

Tile Tiler::tile_of(const Box& box, const std::vector<std::uint32_t>& moves) const {
    Tile tile;
    tile.parts.reserve(moves.size());
    for (std::uint32_t move : moves) {
        tile.parts.push_back({move, 0, 0, intersect(moves_[move].box, box)});
        tile.bytes += static_cast<std::uint64_t>(volume(tile.parts.back().box) * target_itemsize(target_of(move)));
    }
    add_targets(tile);
    add_sources(tile);
    for (const Image& image : tile.sources) tile.memory += image.memory() + image_slack;
    for (const Image& image : tile.targets) tile.memory += image.memory() + image_slack;
    return tile;
}

// Within a tile, the parts of one target piece tile that piece's part of the box.
void Tiler::add_targets(Tile& tile) const {
    const auto target_piece = [&](const TilePart& part) { return moves_[part.move].target; };
    // They already are if the moves are in their usual order.
    if (!std::ranges::is_sorted(tile.parts, {}, target_piece)) std::ranges::stable_sort(tile.parts, {}, target_piece);
    for (std::size_t first = 0, last = 0; first < tile.parts.size(); first = last) {
        Box box = tile.parts[first].box;
        for (last = first + 1; last < tile.parts.size(); ++last) {
            if (target_piece(tile.parts[last]) != target_piece(tile.parts[first])) break;
            box = bounding(box, tile.parts[last].box);
        }
        for (std::size_t k = first; k < last; ++k)
            tile.parts[k].target = static_cast<std::uint32_t>(tile.targets.size());
        const Piece& piece = target_of(tile.parts[first].move);
        tile.targets.push_back(image_of(piece, target_itemsize(piece), box));
        choose_packing(tile.targets.back());
    }
}

void Tiler::add_sources(Tile& tile) const {
    std::vector<std::uint32_t> order(tile.parts.size());
    std::iota(order.begin(), order.end(), 0);
    const auto source_piece = [&](std::uint32_t part) { return moves_[tile.parts[part].move].source; };
    std::ranges::stable_sort(order, {}, source_piece);
    for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
        Box box = tile.parts[order[first]].box;
        for (last = first + 1; last < order.size(); ++last) {
            if (source_piece(order[last]) != source_piece(order[first])) break;
            box = bounding(box, tile.parts[order[last]].box);
        }
        for (std::size_t k = first; k < last; ++k)
            tile.parts[order[k]].source = static_cast<std::uint32_t>(tile.sources.size());
        const Piece& piece = source_of(tile.parts[order[first]].move);
        tile.sources.push_back(image_of(piece, source_itemsize(piece), box));
        choose_packing(tile.sources.back());
    }
}

}  // namespace tpx
