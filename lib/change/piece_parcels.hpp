// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"
#include "lib/change/parcel.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tpx {

/// Elements of one tensor that are in one parcel. Their bytes follow each other in the parcel from `begin` on, in the
/// order of a C array of the size of `box`: the last axis changes fastest.
struct PieceCell {
    std::uint32_t parcel = 0;
    std::uint32_t tensor = 0;
    Box box;
    std::uint64_t begin = 0;
};

/// What changes when ranks that hold the pieces of `source` shall hold those of `target`. A piece is what its `rank`
/// holds, replicas are pieces too; files and offsets are not looked at, bytes are counted in the source's dtypes. Every
/// element of every target piece is in one parcel; nobody may hold it. `roles_of_tensors` has an index into `roles`
/// for each tensor; empty: all have role 0. Throws Error "tensor 'NAME': ..." when a piece lies outside its tensor or
/// belongs to no rank of its side, or when the sides are of different tensors.
Parcels parcels_of(const Side& source, const Side& target, std::span<const std::uint32_t> roles_of_tensors,
                   std::vector<Role> roles, int old_ranks, int new_ranks);

/// Which elements the bytes of the parcels are that parcels_of() makes of the same arguments: by parcel, then `begin`.
/// The cells of a parcel cover it, each element once.
std::vector<PieceCell> cells_of(const Side& source, const Side& target, std::span<const std::uint32_t> roles_of_tensors,
                                std::vector<Role> roles, int old_ranks, int new_ranks);

}  // namespace tpx
