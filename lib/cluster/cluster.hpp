// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace tpx {

/// No particular kind of GPU, or no tenant.
inline constexpr int any = -1;

/// One machine of a cluster.
struct ClusterHost {
    std::string name;
    int kind = 0;  ///< index into Cluster::kinds
    int gpus = 1;
    double cpus = 0;    ///< cores; 0: they are not counted
    double memory = 0;  ///< bytes; 0: they are not counted
};

/// Who shares a cluster: the guaranteed jobs of a tenant never hold more than `quota` GPUs together.
struct Tenant {
    std::string name;
    int quota = 0;
};

/// The machines that a trace is played on.
struct Cluster {
    std::vector<std::string> kinds;  ///< of GPUs, at least one
    std::vector<ClusterHost> hosts;
    std::vector<Tenant> tenants;

    int gpus() const;
    /// Those of one kind, or all for `any`.
    int gpus(int kind) const;
};

}  // namespace tpx
