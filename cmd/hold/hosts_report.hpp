// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/choose_transport.hpp"
#include "cmd/hold/hold_gpus.hpp"
#include "cmd/hold/hosts_plan.hpp"
#include "cmd/output/output.hpp"
#include "lib/exec/mpi.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace tpx::cli {

/// The state that this host holds.
struct HostHeld {
    std::uint64_t bytes = 0;  ///< of memory that the state occupies
    std::uint64_t room = 0;   ///< bytes of memory that were free before
    int process = 0;          ///< process ID of the keeper; 0: none
    HoldPlace place;
    std::vector<GpuNeed> needs;  ///< of its GPUs
};

/// The state that all hosts hold.
struct HostsHeld {
    const HoldOptions& options;
    std::optional<int> timeout;  ///< in seconds; unset: none
    const HostsPlan& plan;
    const ChosenTransport& transport;
    double seconds = 0;  ///< taken to read and move the state
};

/// Prints what the hosts hold, or would hold with --dry-run. Throws an mpi::AgreedError if it cannot be printed.
/// Collective.
void report_hosts(const mpi::Comm& comm, const HostsHeld& held, const HostHeld& own, Output& out);

}  // namespace tpx::cli
