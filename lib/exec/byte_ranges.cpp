// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/byte_ranges.hpp"

#include <algorithm>

namespace tpx {

void ByteRanges::add(ByteRange range) {
    if (range.begin >= range.end) return;
    const auto first = std::ranges::lower_bound(ranges_, range.begin, {}, &ByteRange::end);
    const auto last = std::ranges::upper_bound(first, ranges_.end(), range.end, {}, &ByteRange::begin);
    if (first != last) range = {std::min(range.begin, first->begin), std::max(range.end, (last - 1)->end)};
    const auto at = ranges_.insert(ranges_.erase(first, last), range);
    counts_.resize(static_cast<std::size_t>(at - ranges_.begin()));
    for (auto added = at; added != ranges_.end(); ++added) counts_.push_back(count() + added->end - added->begin);
}

std::uint64_t ByteRanges::next_gap(std::uint64_t byte) const {
    const auto range = std::ranges::upper_bound(ranges_, byte, {}, &ByteRange::end);
    return range != ranges_.end() && range->begin <= byte ? range->end : byte;
}

std::uint64_t ByteRanges::count_before(std::uint64_t byte) const {
    const auto range = std::ranges::upper_bound(ranges_, byte, {}, &ByteRange::begin);
    if (range == ranges_.begin()) return 0;
    const auto k = static_cast<std::size_t>(range - ranges_.begin()) - 1;
    return counts_[k] - (ranges_[k].end - std::min(byte, ranges_[k].end));
}

}  // namespace tpx
