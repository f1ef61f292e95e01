// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"
#include "lib/change/parcel.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tpx {

/// Elements of one tensor in one parcel. Their bytes are contiguous in the parcel, starting at `begin`, in row-major
/// order of `box`: the last axis varies fastest.
struct PieceCell {
    std::uint32_t parcel = 0;
    std::uint32_t tensor = 0;
    Box box;
    std::uint64_t begin = 0;
};

/// The change from ranks that hold the pieces of `source` to ranks that hold those of `target`. A piece is held by its
/// `rank`; replicas are separate pieces. Files and offsets are ignored, and bytes are counted in the source's dtypes.
/// Every element of every target piece is in one parcel, even if no rank holds it. `roles_of_tensors` has an index into
/// `roles` for each tensor; empty: all have role 0. Throws Error "tensor 'NAME': ..." if a piece is outside its tensor
/// or belongs to no rank of its side, or if the sides have different tensors.
Parcels parcels_of(const Side& source, const Side& target, std::span<const std::uint32_t> roles_of_tensors,
                   std::vector<Role> roles, int old_ranks, int new_ranks);

/// The elements in the parcels that parcels_of() returns for the same arguments, ordered by parcel, then `begin`. The
/// cells of a parcel cover it exactly once.
std::vector<PieceCell> cells_of(const Side& source, const Side& target, std::span<const std::uint32_t> roles_of_tensors,
                                std::vector<Role> roles, int old_ranks, int new_ranks);

}  // namespace tpx
