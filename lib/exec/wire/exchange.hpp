// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/mpi.hpp"
#include "lib/exec/options.hpp"
#include "lib/exec/wire/inbox.hpp"
#include "lib/exec/wire/packer.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace tpx {

/// What one host does in the transfers of a change.
struct ExchangeJob {
    const Parcels& parcels;
    std::span<const Transfer> transfers;  ///< of all hosts, sorted by round
    std::span<const int> rank_of_host;    ///< the rank that sends and receives for each host, -1 for none
    std::uint32_t host = 0;               ///< of this rank
    const Inbox& inbox;
    Packer& packer;
    std::filesystem::path path;  ///< of the inbox's file, see Inbox::create()
};

/// What an exchange moved, of this rank.
struct Exchanged {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    std::uint64_t messages = 0;  ///< that this rank has sent
};

/// What an exchange takes for buffers, its packer's among them, of `memory` bytes that there are: 16 to 40 MiB.
std::uint64_t exchange_memory(std::uint64_t memory);

/// Carries out all transfers from or to the host: sends what it holds or has received, and writes what comes to the
/// inbox. All hosts follow one order of all chunks, so that nobody waits in a circle. For one rank of each host at the
/// same time. An error is this rank's alone and must end the job; `options` give the signal that stops it.
Exchanged exchange(const mpi::Comm& comm, const ExchangeJob& job, const ExecOptions& options);

}  // namespace tpx
