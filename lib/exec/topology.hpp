// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace tpx {

/// A GPU on the PCI bus, whether or not a driver knows it.
struct PciGpu {
    std::string bus;     ///< "0000:3b:00.0"
    int numa_node = -1;  ///< -1: unknown
};

/// What hwloc finds about the machine on which this process runs; zeros for what it does not find.
struct MachineTopology {
    int sockets = 0, numa_nodes = 0, cores = 0, threads = 0;
    int own_socket = -1;  ///< the only socket on which this process may run; -1: several, or unknown
    std::vector<PciGpu> gpus;
};

/// Asks hwloc, which honors its own environment variables, such as HWLOC_SYNTHETIC.
MachineTopology find_topology();

/// The switch of this host according to Slurm: the last switch in `address` ("s0.s3.n17" with the pattern
/// "switch.switch.node"); empty if Slurm does not report one. The arguments are the variables SLURM_TOPOLOGY_ADDR and
/// SLURM_TOPOLOGY_ADDR_PATTERN, null if not set.
std::string slurm_switch(const char* address, const char* pattern);

}  // namespace tpx
