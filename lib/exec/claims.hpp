// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/byte_ranges.hpp"
#include "lib/exec/share.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace tpx {

/// Deals the bytes of a job to ranks as they ask for more, so that a slow one gets less: first large parts, then ever
/// smaller ones. Every rank has such an object, takes in the same requests in the same order, and thus knows its parts
/// without a rank that deals.
class Claims {
public:
    /// For rank `own` of `ranks`; no part but the last has fewer than `least` bytes.
    Claims(std::uint64_t total, int ranks, int own, std::uint64_t least);

    /// Takes in how many parts each rank has asked for since the beginning.
    void take_in(std::span<const std::uint64_t> asked);

    /// The next part of this rank that it has not got here yet; an empty one when all bytes are dealt. Nothing while
    /// its request has not been taken in.
    std::optional<ByteRange> next();

private:
    ByteRange deal();

    std::uint64_t total_;
    std::uint64_t least_;
    std::uint64_t dealt_ = 0;
    std::size_t own_;
    std::vector<std::uint64_t> granted_;  // parts of each rank
    std::deque<ByteRange> parts_;         // of this rank
};

/// The tiles of a job whose first byte that is not done yet is in a part that this rank has claimed; for one walk
/// through the job, as it claims the next part when the walk is behind the last one.
class ClaimedShare : public Share {
public:
    /// `claim` returns the next part, an empty one when there is none; `done` must outlive this.
    ClaimedShare(const ByteRanges& done, std::function<ByteRange()> claim) : done_{done}, claim_{std::move(claim)} {}

    bool may_take(ByteRange bytes) const override;
    bool takes(ByteRange tile) const override;
    std::uint64_t part() const override { return part_.begin; }

private:
    bool reach(std::uint64_t byte) const;

    const ByteRanges& done_;
    std::function<ByteRange()> claim_;
    mutable ByteRange part_{0, 0};
    mutable bool exhausted_ = false;
};

}  // namespace tpx
