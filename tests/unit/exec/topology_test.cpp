// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/topology.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace tpx;

TEST_CASE("sockets, NUMA nodes, cores and threads match the machine") {
    setenv("HWLOC_SYNTHETIC", "package:2 numa:2 core:3 pu:2", 1);
    const MachineTopology made_up = find_topology();
    unsetenv("HWLOC_SYNTHETIC");
    CHECK(made_up.sockets == 2);
    CHECK(made_up.numa_nodes == 4);
    CHECK(made_up.cores == 12);
    CHECK(made_up.threads == 24);
    CHECK(made_up.own_socket == -1);  // it may run on both
    const MachineTopology real = find_topology();
    CHECK(real.threads >= 1);
    CHECK(real.cores <= real.threads);
}

TEST_CASE("the leaf switch is the last one that Slurm lists") {
    CHECK(slurm_switch("s0.s3.n17", "switch.switch.node") == "s3");
    CHECK(slurm_switch("s3.n17.cluster.org", "switch.node") == "s3");
    CHECK(slurm_switch("n17", "node") == "");
    CHECK(slurm_switch("n17", "switch.node") == "");
    CHECK(slurm_switch(nullptr, "switch.node") == "");
    CHECK(slurm_switch("s0.n17", nullptr) == "");
}
