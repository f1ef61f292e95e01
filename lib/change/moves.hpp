// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tpx {

/// One side of a plan: canonical tensors and the pieces that hold them. Both sides of a plan index the same tensors
/// (equal names and shapes); if dtypes differ, values are cast.
struct Side {
    std::span<const Tensor> tensors;
    std::span<const Piece> pieces;
};

/// The elements of `box` go from one source piece to one target piece; both contain `box`.
struct Move {
    std::uint32_t source = 0;  ///< index into the source's pieces
    std::uint32_t target = 0;  ///< index into the target's pieces
    Box box;
};

/// Where each element of each target piece comes from. Moves are sorted by target piece, then box; the boxes of one
/// target piece tile it.
using Moves = std::vector<Move>;

/// Throws Error "tensor 'NAME': ..." if a piece belongs to no tensor of its side or is outside its tensor.
void check_pieces(const Side& side);

/// Chooses one source for every element of every target piece, preferring a source of the same rank, then the lowest
/// piece. Throws Error "tensor 'NAME': no file contains [box] (N of M elements)" if no source piece contains N of the M
/// elements of a target piece, and if the sides have different tensors or a piece is outside its tensor. The time grows
/// with the pieces and moves, not with the product of the sides.
Moves make_moves(const Side& source, const Side& target);

/// How far a source piece is from a target piece, by their numbers; lower is better.
using PieceDistance = std::function<int(std::uint32_t source, std::uint32_t target)>;

/// The same, but prefers the nearest source. Among replicas that are equally near, different targets use different
/// ones, so that no link carries more than it must.
Moves make_moves(const Side& source, const Side& target, const PieceDistance& distance);

}  // namespace tpx
