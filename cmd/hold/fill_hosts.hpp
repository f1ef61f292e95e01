// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/hosts_plan.hpp"
#include "cmd/output/output.hpp"
#include "lib/exec/mpi.hpp"

#include <atomic>
#include <filesystem>

namespace tpx::cli {

/// The arguments of fill_host() that do not depend on the plan.
struct FillRun {
    const mpi::Comm& comm;
    const HoldOptions& options;
    const std::filesystem::path& folder;  ///< contains the source files of this host
    const std::atomic<int>* cancelled;    ///< as in ExecOptions
    Output& out;
};

/// Reads the state of this host's ranks into memory: elements that the host already holds from `run.folder`, all others
/// from other hosts by MPI. Throws an mpi::AgreedError. Collective.
HeldFiles fill_host(const FillRun& run, const HostsPlan& plan, const HostShare& share);

}  // namespace tpx::cli
