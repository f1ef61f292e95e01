// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/measure.hpp"

#include <string>
#include <utility>
#include <vector>

namespace tpx::cli {

/// Where a rank runs, as its machine reports it.
struct RankHardware {
    std::string host;
    std::string switch_group;  ///< empty: not known
    int socket = -1;           ///< -1: the rank may run on several sockets
    std::string gpu;           ///< the PCI address of its GPU; empty: none
};

/// Where all ranks run. Hosts are in the order of their first ranks.
struct JobHardware {
    std::vector<RankHardware> ranks;
    std::vector<std::string> hosts;
    std::vector<std::vector<int>> ranks_of;  ///< of each host
    std::vector<int> host_of;                ///< of each rank

    std::vector<int> first_ranks() const;
    /// The first rank on each GPU that ranks use.
    std::vector<int> ranks_with_gpus() const;
};

/// The name of a host as it is written to files: characters other than letters, digits, '-', '.' and '_' become '_'.
std::string plain_host_name(std::string name);

/// Gathers the places of all ranks; tabs and line feeds in names of switches become blanks. Collective.
JobHardware gather_job_hardware(const mpi::Comm& comm, const RankHardware& mine);

/// One pair of ranks of each host: on one socket or, with `across`, on two; ranks whose socket is unknown count as
/// being on two. Omits hosts without such a pair.
PairRound pairs_within_hosts(const JobHardware& places, bool across);

}  // namespace tpx::cli
