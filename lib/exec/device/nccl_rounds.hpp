// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/device/run_rounds.hpp"
#include "lib/exec/mpi.hpp"

#include <chrono>
#include <memory>
#include <span>
#include <string>

namespace tpx {

/// Why this process cannot load NCCL; empty if it can.
std::string nccl_problem();

/// Settings of the NCCL transport.
struct NcclSettings {
    const mpi::Comm& comm;          ///< one rank for each host
    int host = 0;                   ///< this rank's
    std::chrono::seconds patience;  ///< after which a round or the connection fails
};

/// A transport that carries the messages between GPUs of different hosts by NCCL, from GPU memory to GPU memory, and
/// all other messages by `others`, which must outlive it. Each GPU of `rounds` is one rank of one NCCL communicator; a
/// process drives all GPUs of its host. Throws an mpi::AgreedError if NCCL cannot connect the GPUs. Collective.
std::unique_ptr<RoundTransport> make_nccl_rounds(const NcclSettings& settings, std::span<const Round> rounds,
                                                 RoundTransport& others);

}  // namespace tpx
