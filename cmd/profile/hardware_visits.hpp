// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/profile/hardware_places.hpp"
#include "lib/exec/measure_gpu.hpp"
#include "lib/model/hardware.hpp"

namespace tpx::cli {

/// What visits at different times measured.
struct Visits {
    std::vector<HostHardware> host;                                     ///< this one; on the first rank of each host
    std::vector<std::vector<LinkRates>> links, same_socket, same_host;  ///< on rank 0
    std::vector<NcclRates> nccl;                                        ///< on rank 0
};

/// One host as all visits to it show it.
HostHardware combine_host(const std::vector<HostHardware>& visits);

/// Adds links between and inside the hosts of `places`, as all visits show them, and the NICs that follow.
void add_links(Hardware& hardware, const Visits& visits, const Places& places);

/// The first pair of ranks with GPUs of each class that there is.
struct NcclPairs {
    std::vector<PairClass> kinds;
    std::vector<std::pair<int, int>> pairs;  ///< positions in Places::ranks_with_gpus()
};
NcclPairs nccl_pairs(const Places& places);

/// Adds what NCCL reached, as all visits show it.
void add_nccl(Hardware& hardware, const Visits& visits, const Places& places);

}  // namespace tpx::cli
