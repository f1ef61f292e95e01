// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/cluster.hpp"

namespace tpx {

int Cluster::gpus() const { return gpus(any); }

int Cluster::gpus(int kind) const {
    int total = 0;
    for (const ClusterHost& host : hosts)
        if (kind == any || host.kind == kind) total += host.gpus;
    return total;
}

}  // namespace tpx
