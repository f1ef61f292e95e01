// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/work_claims.hpp"

#include <algorithm>

namespace tpx {

WorkClaims::WorkClaims(std::uint64_t total, int ranks, int own, std::uint64_t least)
    : total_{total},
      least_{std::max<std::uint64_t>(least, 1)},
      own_{static_cast<std::size_t>(own)},
      granted_(static_cast<std::size_t>(ranks)) {}

void WorkClaims::process_requests(std::span<const std::uint64_t> asked) {
    for (std::size_t rank = 0; rank < granted_.size(); ++rank) {
        for (; granted_[rank] < asked[rank]; ++granted_[rank]) {
            const ByteRange part = assign_part();
            if (rank == own_) parts_.push_back(part);
        }
    }
}

std::optional<ByteRange> WorkClaims::next() {
    if (parts_.empty()) return std::nullopt;
    const ByteRange part = parts_.front();
    parts_.pop_front();
    return part;
}

// A part is half of what each rank would get of the rest: a rank that becomes slow delays the end by less than that.
ByteRange WorkClaims::assign_part() {
    constexpr std::uint64_t most = std::uint64_t{1} << 30;
    const std::uint64_t left = total_ - dealt_;
    const std::uint64_t fair = granted_.size() == 1 ? left : std::min(left / (2 * granted_.size()), most);
    const ByteRange part{dealt_, dealt_ + std::min(left, std::max(fair, least_))};
    dealt_ = part.end;
    return part;
}

bool ClaimedShare::reach(std::uint64_t byte) const {
    while (!exhausted_ && part_.end <= byte) {
        part_ = claim_();
        exhausted_ = part_.begin == part_.end;
    }
    return !exhausted_;
}

bool ClaimedShare::may_take(ByteRange bytes) const {
    const std::uint64_t first = done_.next_gap(bytes.begin);
    return first < bytes.end && reach(first) && part_.begin < bytes.end;
}

bool ClaimedShare::takes(ByteRange tile) const {
    const std::uint64_t first = done_.next_gap(tile.begin);
    return first < tile.end && reach(first) && part_.begin <= first;
}

}  // namespace tpx
