// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"

#include <span>
#include <vector>

namespace tpx::formats::deepspeed {

/// How ZeRO 1 and 2 flatten a group of parameters and cut it into equal partitions. A parameter may be followed by a
/// gap; the end is padded so that all partitions are equal and even.
struct GroupLayout {
    std::vector<Index> starts;  ///< where each parameter begins in the flat group
    Index total = 0;            ///< elements before the padding at the end, including gaps
    Index part = 0;             ///< elements of each partition, including padding
    int partitions = 1;

    /// The flat elements of partition `k`, without the padding at the end.
    Interval partition(int k) const { return {std::min(k * part, total), std::min((k + 1) * part, total)}; }
};

/// The layout of parameters of `numels` elements, each followed by a gap of `gaps` elements (empty: no gaps). Throws
/// Error if there are too many elements.
GroupLayout lay_out_group(std::span<const Index> numels, std::span<const Index> gaps, int partitions);

/// The number of elements that each of `partitions` ranks holds under ZeRO 3 of a parameter with `numel` elements; the
/// last ranks' parts include padding.
constexpr Index part_of_parameter(Index numel, Index partitions) { return (numel + partitions - 1) / partitions; }

}  // namespace tpx::formats::deepspeed
