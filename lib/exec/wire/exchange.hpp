// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/exec_options.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/wire/inbox.hpp"
#include "lib/exec/wire/parcel_packer.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace tpx {

/// One host's part in the transfers of a change.
struct ExchangeJob {
    const Parcels& parcels;
    std::span<const Transfer> transfers;  ///< of all hosts, sorted by round
    std::span<const int> rank_of_host;    ///< the rank that sends and receives for each host, -1 for none
    std::uint32_t host = 0;               ///< this rank's host
    const Inbox& inbox;
    ParcelPacker& packer;
    std::filesystem::path path;  ///< path of the inbox's file, see Inbox::create()
};

/// What an exchange moved on this rank, in bytes and messages.
struct ExchangeResult {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    std::uint64_t messages = 0;  ///< messages that this rank has sent
};

/// The part of `memory` bytes that an exchange uses for buffers, including its packer's: 12 to 24 MiB.
std::uint64_t exchange_memory(std::uint64_t memory);

/// Executes all transfers from or to the host: sends what the host holds or has received, and writes what it receives
/// to the inbox. All hosts follow one order of all chunks, so that they never deadlock. One rank of each host must call
/// it at the same time. An error is this rank's alone and must end the job; the signal in `options` stops it.
ExchangeResult exchange(const mpi::Comm& comm, const ExchangeJob& job, const ExecOptions& options);

}  // namespace tpx
