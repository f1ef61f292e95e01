// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/layout.hpp"

#include <vector>

namespace tpx {

/// What bounds the layouts that a model can have on given ranks.
struct CandidateLimits {
    int ranks = 1;
    int most_tp = 8;  ///< tensor parallelism inside a host only
    int layers = 1;   ///< at least one a stage
    int experts = 0;  ///< 0: the model has none
    Layout like;      ///< cp, zero, vpp, fsdp_dim and order are taken over; fsdp is used where it is used here
};

/// Every combination of tp, pp, dp, ep and etp (1, or as tp) that fills all ranks, has whole experts on ranks and deals
/// the layers evenly, or with fewer on the last stage. Whether tp fits the tensors is not asked.
std::vector<Layout> candidates(const CandidateLimits& limits);

}  // namespace tpx
