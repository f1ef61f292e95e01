// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/hosts_plan.hpp"
#include "cmd/output/output.hpp"
#include "lib/exec/mpi.hpp"

#include <atomic>
#include <filesystem>

namespace tpx::cli {

/// This host and its source.
struct FillRun {
    const mpi::Comm& comm;
    const HoldOptions& options;
    const std::filesystem::path& folder;  ///< has the source files of this host
    const std::atomic<int>* cancelled;    ///< as in ExecOptions
    Output& out;
};

/// Reads the state of this host's ranks into memory: what the host has from `run.folder`, the rest from other hosts.
/// Throws an mpi::AgreedError. Collective.
HeldFiles fill_host(const FillRun& run, const HostsPlan& plan, const HostShare& share);

}  // namespace tpx::cli
