// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/profile/job_hardware.hpp"
#include "lib/exec/measure_gpu.hpp"
#include "lib/model/hardware.hpp"

namespace tpx::cli {

/// The measurements of visits at different times.
struct Visits {
    std::vector<HostHardware> host;                                     ///< this one; on the first rank of each host
    std::vector<std::vector<LinkRates>> links, same_socket, same_host;  ///< on rank 0
    std::vector<NcclRates> nccl;                                        ///< on rank 0
};

/// Combines the measurements of all visits to one host.
HostHardware combine_host(const std::vector<HostHardware>& visits);

/// Adds the links between and inside the hosts of `places`, combined from all visits, and the NIC rates that follow
/// from them.
void add_links(Hardware& hardware, const Visits& visits, const JobHardware& places);

/// The first pair of ranks with GPUs for each class of pairs that occurs.
struct NcclPairs {
    std::vector<PairClass> kinds;
    std::vector<std::pair<int, int>> pairs;  ///< positions in JobHardware::ranks_with_gpus()
};
NcclPairs nccl_pairs(const JobHardware& places);

/// Adds the rates of NCCL, combined from all visits.
void add_nccl(Hardware& hardware, const Visits& visits, const JobHardware& places);

}  // namespace tpx::cli
