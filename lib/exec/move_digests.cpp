// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/move_digests.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <tuple>

namespace tpx {

MoveDigests::MoveDigests(const Side& target)
    : target_{target}, included_(target.pieces.size()), crcs_(target.tensors.size()) {
    std::vector<std::uint32_t> order(target.pieces.size());
    std::iota(order.begin(), order.end(), 0);
    const auto key = [&](std::uint32_t k) { return std::tie(target.pieces[k].tensor, target.pieces[k].box); };
    std::ranges::stable_sort(order, {}, key);
    for (std::size_t k = 0; k < order.size(); ++k) included_[order[k]] = k == 0 || key(order[k - 1]) != key(order[k]);
}

void MoveDigests::add(std::uint32_t piece, const Digest& part) {
    std::atomic_ref{crcs_[target_.pieces[piece].tensor]}.fetch_xor(part.crc, std::memory_order_relaxed);
}

std::vector<Digest> MoveDigests::complete(const mpi::Comm& comm) {
    mpi::all_xor(comm, crcs_);
    std::vector<Digest> digests(crcs_.size());
    for (std::size_t t = 0; t < crcs_.size(); ++t) digests[t].crc = crcs_[t];
    for (std::size_t k = 0; k < target_.pieces.size(); ++k) {
        const Piece& piece = target_.pieces[k];
        const auto elements = static_cast<std::uint64_t>(included_[k] ? volume(piece.box) : 0);
        digests[piece.tensor].bytes +=
            elements * static_cast<std::uint64_t>(itemsize(target_.tensors[piece.tensor].dtype));
    }
    return digests;
}

}  // namespace tpx
