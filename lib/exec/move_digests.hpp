// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"
#include "lib/core/digest.hpp"
#include "lib/exec/mpi.hpp"

#include <cstdint>
#include <vector>

namespace tpx {

/// The digests of the tensors that moves write, computed from the cast elements while they are in memory. Of target
/// pieces with equal boxes, only the first is included.
class MoveDigests {
public:
    explicit MoveDigests(const Side& target);

    /// Whether the elements of a target piece are part of the digest of its tensor.
    bool includes(std::uint32_t piece) const { return included_[piece]; }

    /// Adds elements of a target piece that is included; each element once. Several threads may call this at once.
    void add(std::uint32_t piece, const Digest& part);

    /// The digest of each tensor, on every rank; if pieces do not cover a tensor, its digest has fewer bytes.
    /// Collective; to be called once.
    std::vector<Digest> complete(const mpi::Comm& comm);

private:
    Side target_;
    std::vector<bool> included_;       // by piece
    std::vector<std::uint64_t> crcs_;  // by tensor
};

}  // namespace tpx
