// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/measure.hpp"

#include <string>
#include <utility>
#include <vector>

namespace tpx::cli {

/// A rank, as its machine knows it.
struct RankPlace {
    std::string host;
    std::string switch_group;  ///< empty: not known
    int socket = -1;           ///< -1: it may run on several
    std::string gpu;           ///< the PCI address of its GPU; empty: none
};

/// Where all ranks are. Hosts are in the order of their first ranks.
struct Places {
    std::vector<RankPlace> ranks;
    std::vector<std::string> hosts;
    std::vector<std::vector<int>> ranks_of;  ///< of each host
    std::vector<int> host_of;                ///< of each rank

    std::vector<int> first_ranks() const;
    /// The first rank of each GPU that ranks have.
    std::vector<int> ranks_with_gpus() const;
};

/// The name of a host as files can say it: what is neither letter, digit, '-', '.' nor '_' becomes '_'.
std::string plain_host_name(std::string name);

/// Puts the places of all ranks together; tabs and line ends in the names of switches become blanks.
Places gather_places(const mpi::Comm& comm, const RankPlace& mine);

/// A pair of ranks of each host: on one socket, or, with `across`, on two; ranks of which the socket is not known count
/// as on two. Hosts without such a pair have none.
PairRound pairs_inside(const Places& places, bool across);

}  // namespace tpx::cli
