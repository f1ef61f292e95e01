// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/host_gpus.hpp"
#include "cmd/hold/hosts_plan.hpp"
#include "lib/exec/device/run_rounds.hpp"
#include "lib/exec/mpi.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tpx::cli {

/// The transport by which several hosts exchange state.
struct ChosenTransport {
    std::unique_ptr<RoundTransport> by_mpi;
    std::unique_ptr<RoundTransport> by_nccl;  ///< uses by_mpi for host memory; null: all messages move by MPI
    std::string name;                         ///< "nccl" or "mpi"; empty: nothing moves between hosts
    std::string reason;                       ///< with "mpi": why it is not "nccl"
    std::uint64_t nccl_bytes = 0;             ///< of elements that NCCL carries

    RoundTransport& get() const { return by_nccl ? *by_nccl : *by_mpi; }
};

/// Chooses as --transport requests, and connects the GPUs unless --dry-run is given. With auto, NCCL is used if
/// tensors move between GPUs of different hosts, all hosts have the library and memory for staging, and the connection
/// succeeds. Adds staging in GPU memory to `gpus.needs()`. Throws an mpi::AgreedError if --transport nccl is
/// impossible. Collective.
ChosenTransport choose_transport(const mpi::Comm& comm, const HoldOptions& options, const HostsPlan& plan,
                                 HostGpus& gpus);

/// Throws Error (usage) unless --transport can be used with the other options; `is_on_hosts`: one process runs on each
/// of several hosts.
void check_transport(const HoldOptions& options, bool is_on_hosts);

}  // namespace tpx::cli
