// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"
#include "lib/exec/image.hpp"
#include "lib/exec/tile_share.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace tpx {

/// The part of one move inside a tile.
struct TilePart {
    std::uint32_t move = 0;
    std::uint32_t source = 0;  ///< index into the tile's sources
    std::uint32_t target = 0;  ///< index into the tile's targets
    Box box;
};

/// A box of a canonical tensor and everything that is moved in it: the parts of the source pieces that are read, each
/// once, and the parts of the target pieces that are written.
struct Tile {
    std::vector<Image> sources;
    std::vector<Image> targets;
    std::vector<TilePart> parts;
    std::uint64_t memory = 0;  ///< upper bound of the memory of its images
    std::uint64_t begin = 0;   ///< bytes of the job before it
    std::uint64_t bytes = 0;   ///< bytes that it writes

    ByteRange range() const { return {begin, begin + bytes}; }

    /// Appends a tile that begins where this one ends, to be read and written together. Any tile can be appended to an
    /// empty one.
    void append(const Tile& other);
};

/// How large tiles may be.
struct TileLimits {
    std::uint64_t most = 0;          ///< memory that no tile exceeds, unless it cannot be split
    std::uint64_t preferred = 0;     ///< memory above which tiles are split if that does not shorten runs
    std::vector<bool> decoded = {};  ///< by source file: whether pieces should be read whole; empty: none
};

/// Splits moves into tiles, in the order of the source files. Limits determine how far boxes are split, not where: the
/// bytes of a job have the same order under all limits, and a tile is a contiguous part of that order.
class Tiler {
public:
    Tiler(const Moves& moves, const Side& source, const Side& target, const TileLimits& limits);

    /// Bytes that are written, by all ranks.
    std::uint64_t bytes() const { return bytes_; }

    /// Calls `visit` with each tile of `share`, in their order, until it returns false.
    void for_each(const TileShare& share, const std::function<bool(Tile&&)>& visit) const;

private:
    struct Group;
    struct Walk;

    struct Order;
    Order order_of_moves() const;
    Group group_of(std::vector<std::uint32_t> moves) const;
    bool cut(Walk& walk, const Group& group, const Box& box, const std::vector<std::uint32_t>& moves) const;
    struct Place;
    Place place_to_cut(const Group& group, const Box& box) const;
    Place place_between_pieces(const Group& group, const Box& box, const std::vector<std::uint32_t>& moves) const;
    std::uint64_t bytes_in(const Box& box, const std::vector<std::uint32_t>& moves) const;
    Tile tile_of(const Box& box, const std::vector<std::uint32_t>& moves) const;
    void add_targets(Tile& tile) const;
    void add_sources(Tile& tile) const;

    const Piece& source_of(std::uint32_t move) const { return source_.pieces[moves_[move].source]; }
    const Piece& target_of(std::uint32_t move) const { return target_.pieces[moves_[move].target]; }
    int source_itemsize(const Piece& piece) const { return itemsize(source_.tensors[piece.tensor].dtype); }
    int target_itemsize(const Piece& piece) const { return itemsize(target_.tensors[piece.tensor].dtype); }

    const Moves& moves_;
    Side source_;
    Side target_;
    TileLimits limits_;
    std::uint64_t bytes_ = 0;
};

}  // namespace tpx
