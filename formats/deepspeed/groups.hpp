// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"

#include <span>
#include <vector>

namespace tpx::formats::deepspeed {

/// How ZeRO 1 and 2 lay a group of parameters flat, one behind another, and cut it into equal partitions. A parameter
/// may be followed by a gap; the end is padded so that all partitions are equal and even.
struct GroupLayout {
    std::vector<Index> starts;  ///< where each parameter begins in the flat group
    Index total = 0;            ///< elements before the padding at the end, gaps included
    Index part = 0;             ///< elements of each partition, padding included
    int partitions = 1;

    /// The flat elements of partition `k` that are no padding at the end.
    Interval partition(int k) const { return {std::min(k * part, total), std::min((k + 1) * part, total)}; }
};

/// The layout of parameters of `numels` elements, each followed by as many elements of `gaps` (none: no gaps). Throws
/// Error when they are too many to count.
GroupLayout lay_group(std::span<const Index> numels, std::span<const Index> gaps, int partitions);

/// How many elements of a parameter of `numel` each of `partitions` ranks holds under ZeRO 3; the last ones hold
/// padding too.
constexpr Index part_of_parameter(Index numel, Index partitions) { return (numel + partitions - 1) / partitions; }

}  // namespace tpx::formats::deepspeed
