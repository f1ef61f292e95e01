// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/byte_ranges.hpp"
#include "lib/exec/tile_share.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace tpx {

/// Assigns the bytes of a job to ranks as they ask for more, so that slow ranks get less: first large parts, then
/// smaller and smaller ones. Every rank has its own WorkClaims, processes the same requests in the same order, and thus
/// knows its parts without a central rank.
class WorkClaims {
public:
    /// For rank `own` of `ranks`; no part but the last has fewer than `least` bytes.
    WorkClaims(std::uint64_t total, int ranks, int own, std::uint64_t least);

    /// Processes requests: `asked` is the number of parts that each rank has asked for since the beginning.
    void process_requests(std::span<const std::uint64_t> asked);

    /// The next part of this rank that was not returned yet; an empty part if all bytes are assigned. Nothing if the
    /// request has not been processed yet.
    std::optional<ByteRange> next();

private:
    ByteRange assign_part();

    std::uint64_t total_;
    std::uint64_t least_;
    std::uint64_t dealt_ = 0;
    std::size_t own_;
    std::vector<std::uint64_t> granted_;  // number of parts of each rank
    std::deque<ByteRange> parts_;         // of this rank
};

/// The tiles of a job whose first unfinished byte is in a part that this rank has claimed. For a single walk through
/// the job: it claims the next part when the walk is past the last one.
class ClaimedShare : public TileShare {
public:
    /// `claim` returns the next part, or an empty part if there is none; `done` must outlive this.
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
