// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace tpx {

/// A GPU on the PCI bus, whether or not a driver knows it.
struct PciGpu {
    std::string bus;     ///< "0000:3b:00.0"
    int numa_node = -1;  ///< -1: not known
};

/// What hwloc finds of the machine that this process runs on; zeros for what it does not find.
struct MachineTopology {
    int sockets = 0, numa_nodes = 0, cores = 0, threads = 0;
    int own_socket = -1;  ///< the only one that this process may run on; -1: several, or not known
    std::vector<PciGpu> gpus;
};

/// Asks hwloc, which heeds its own variables such as HWLOC_SYNTHETIC.
MachineTopology find_topology();

/// The switch that Slurm says this host is on, the last one of SLURM_TOPOLOGY_ADDR ("s0.s3.n17" with the pattern
/// "switch.switch.node"); empty where it does not say. Arguments: these two variables, null when not set.
std::string slurm_switch(const char* address, const char* pattern);

}  // namespace tpx
