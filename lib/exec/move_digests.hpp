// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"
#include "lib/core/digest.hpp"
#include "lib/exec/mpi.hpp"

#include <cstdint>
#include <vector>

namespace tpx {

/// The digests of the tensors that moves write, cast as they are written, taken while the elements are in memory. Of
/// target pieces with equal boxes, the first counts.
class MoveDigests {
public:
    explicit MoveDigests(const Side& target);

    /// Whether the elements of a target piece count.
    bool counts(std::uint32_t piece) const { return counts_[piece]; }

    /// Adds elements of a target piece that counts; each element once. Several threads may call this at once.
    void add(std::uint32_t piece, const Digest& part);

    /// The digest of each tensor, on every rank; of tensors whose pieces do not cover them, of fewer bytes than theirs.
    /// Collective; to be called once.
    std::vector<Digest> complete(const mpi::Comm& comm);

private:
    Side target_;
    std::vector<bool> counts_;         // by piece
    std::vector<std::uint64_t> crcs_;  // by tensor
};

}  // namespace tpx
