// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"
#include "lib/exec/device/copy_batch.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

// Moves between places in memory, of the host or of GPUs, as batches of strided copies.
namespace tpx {

/// One side of moves whose files are in memory: the first byte of each file, by number; null: the file is elsewhere.
template <class Byte>
struct PlacedSide {
    const Side& side;
    std::span<Byte* const> files;
};

/// Strides of a piece in bytes, and where in its file a box of it begins.
struct BoxPlace {
    Strides strides;
    std::uint64_t offset = 0;
};

/// Where `box`, which the piece contains, is in the file of the piece.
BoxPlace place_of(const Piece& piece, const Box& box, int itemsize);

/// Whether a device can make a move: its types are equal, or the engine has the cast as well.
bool can_copy(const Move& move, const Side& source, const Side& target);

/// The moves number `chosen`, as batches of about `most` copies that are passed to `run` one after another. A cast that
/// makes a finite value infinite sets `*overflow`, which may be null. Precondition: can_copy() each, and the files of
/// its pieces are in memory and do not overlap.
void copy_moves(const Moves& moves, std::span<const std::uint32_t> chosen, const PlacedSide<const std::byte>& source,
                const PlacedSide<std::byte>& target, std::uint32_t* overflow, std::size_t most,
                const std::function<void(const CopyBatch&)>& run);

}  // namespace tpx
