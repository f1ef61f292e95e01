// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/host_gpus.hpp"
#include "cmd/hold/hosts_plan.hpp"
#include "cmd/output/output.hpp"
#include "lib/exec/device/run_rounds.hpp"
#include "lib/exec/mpi.hpp"

#include <atomic>
#include <filesystem>

namespace tpx::cli {

/// The arguments of fill_host() that do not depend on the plan.
struct FillRun {
    const mpi::Comm& comm;
    const HoldOptions& options;
    const std::filesystem::path& folder;  ///< contains the source files of this host
    const HostGpus& gpus;
    RoundTransport& transport;
    const std::atomic<int>* cancelled;  ///< as in ExecOptions
    Output& out;
};

/// Copies the state of this host's ranks to host memory, or to the GPU memory that the keeper has allocated: elements
/// that the host already holds from `run.folder` or its GPUs, all others from other hosts. The documents of parts on
/// GPUs contain the handles of their memory. Throws an mpi::AgreedError. Collective.
HeldFiles fill_host(const FillRun& run, const HostsPlan& plan, const HostShare& share);

}  // namespace tpx::cli
