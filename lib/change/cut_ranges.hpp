// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/parcel.hpp"

#include <algorithm>
#include <cstdint>
#include <span>

namespace tpx {

/// Cuts `ranges`, laid end to end, with `bytes` bytes in all, into at most `parts` parts of about equal size, and calls
/// visit(part, range, begin, end) for the bytes of each range in each part. Cuts are moved back to element boundaries,
/// so a part exceeds its share by less than one element.
template <class Range, class Visit>
void cut_ranges(std::span<const Range> ranges, std::uint64_t bytes, std::size_t parts, const Parcels& parcels,
                Visit&& visit) {
    const auto end_of = [&](std::size_t part) {
        return static_cast<std::uint64_t>(static_cast<unsigned __int128>(bytes) * (part + 1) / parts);
    };
    std::size_t part = 0;
    std::uint64_t position = 0;
    for (const Range& range : ranges) {
        for (std::uint64_t begin = range.begin; begin < range.end;) {
            while (end_of(part) <= position) ++part;
            std::uint64_t end = std::min(range.end, begin + (end_of(part) - position));
            if (end < range.end) end = parcels.parcels[range.parcel].align(end);
            if (end <= begin) {
                ++part;
                continue;
            }
            visit(part, range, begin, end);
            position += end - begin;
            begin = end;
        }
    }
}

}  // namespace tpx
