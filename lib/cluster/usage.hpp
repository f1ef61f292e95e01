// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/results.hpp"

#include <span>

namespace tpx {

/// Mean numbers of GPUs over a stretch of time.
struct Usage {
    double held = 0;
    double training = 0;
};

/// The GPUs in use in each of `count` equal stretches from `begin` to `end`; what segments have in all is conserved.
std::vector<Usage> usage_over_time(std::span<const JobSegment> segments, Time begin, Time end, int count);

}  // namespace tpx
