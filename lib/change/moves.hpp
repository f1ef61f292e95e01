// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// One side of a plan: canonical tensors and the pieces that hold them. Both sides of a plan index the same tensors
/// (equal names and shapes); dtypes may differ, then values are cast.
struct Side {
    std::span<const Tensor> tensors;
    std::span<const Piece> pieces;
};

/// The elements of `box` go from one source piece to one target piece; `box` lies in both.
struct Move {
    std::uint32_t source = 0;  ///< index into the source's pieces
    std::uint32_t target = 0;  ///< index into the target's pieces
    Box box;
};

/// Where each element of each target piece comes from. Moves are sorted by target piece, then box; the boxes of one
/// target piece tile it.
using Moves = std::vector<Move>;

/// Throws Error "tensor 'NAME': ..." when a piece belongs to no tensor of its side or lies outside it.
void check_pieces(const Side& side);

/// Chooses one source for every element of every target piece, preferring a source of the same rank, then the lowest
/// piece. Throws Error "tensor 'NAME': no file contains [box] (N of M elements)" for a target piece of M elements of
/// which no source piece has N, and when the sides are of different tensors or a piece lies outside its tensor. Takes
/// time that grows with the pieces and moves, not with the product of the sides.
Moves make_moves(const Side& source, const Side& target);

}  // namespace tpx
