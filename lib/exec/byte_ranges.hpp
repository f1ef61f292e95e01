// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace tpx {

/// Bytes from `begin` up to, not including, `end`.
struct ByteRange {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    friend constexpr bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// A set of bytes as ranges, sorted and disjoint; adjacent ranges are merged.
class ByteRanges {
public:
    /// Adds the bytes of `range`, which may overlap the set. The time grows with the number of ranges after it.
    void add(ByteRange range);

    /// Whether all bytes of `range` are in the set.
    bool contains(ByteRange range) const { return next_gap(range.begin) >= range.end; }

    /// The first byte from `byte` on that is not in the set.
    std::uint64_t next_gap(std::uint64_t byte) const;

    /// How many bytes of the set are before `byte`.
    std::uint64_t count_before(std::uint64_t byte) const;

    std::uint64_t count() const { return counts_.empty() ? 0 : counts_.back(); }
    bool empty() const { return ranges_.empty(); }
    const std::vector<ByteRange>& ranges() const { return ranges_; }

private:
    std::vector<ByteRange> ranges_;
    std::vector<std::uint64_t> counts_;  // bytes of the ranges up to and including each one
};

}  // namespace tpx
