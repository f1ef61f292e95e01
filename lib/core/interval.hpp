// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

namespace tpx {

using Index = std::int64_t;

/// The half-open range [begin, end). Never inverted; empty when begin == end.
struct Interval {
    Index begin = 0;
    Index end = 0;

    constexpr Index size() const { return end - begin; }
    constexpr bool empty() const { return begin == end; }
    constexpr bool contains(Interval other) const { return begin <= other.begin && other.end <= end; }

    friend constexpr bool operator==(Interval, Interval) = default;
    friend constexpr auto operator<=>(Interval, Interval) = default;
};

/// The intersection of `a` and `b`; empty when they are disjoint.
constexpr Interval intersect(Interval a, Interval b) {
    const Index begin = std::max(a.begin, b.begin);
    return {begin, std::max(begin, std::min(a.end, b.end))};
}

/// `a` moved by `by`.
constexpr Interval shift(Interval a, Index by) { return {a.begin + by, a.end + by}; }

/// The `k`-th of `n` consecutive parts of `whole`, whose sizes differ by at most one, larger parts first.
constexpr Interval part(Interval whole, Index n, Index k) {
    assert(0 <= k && k < n);
    const Index size = whole.size() / n;
    const Index larger = whole.size() % n;
    const Index begin = whole.begin + k * size + std::min(k, larger);
    return {begin, begin + size + (k < larger ? 1 : 0)};
}

/// The `k`-th of `n` chunks of `whole` as split by torch.chunk and DTensor's Shard: all have ceil(size/n) elements
/// until the elements run out, so the last chunks may be shorter or empty.
constexpr Interval chunk(Interval whole, Index n, Index k) {
    assert(0 <= k && k < n);
    const Index size = (whole.size() + n - 1) / n;
    const Index begin = std::min(whole.end, whole.begin + k * size);
    return {begin, std::min(whole.end, begin + size)};
}

}  // namespace tpx
