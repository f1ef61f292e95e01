// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/device/rounds.hpp"
#include "lib/exec/mpi.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace tpx {

/// Bytes of a message in the staging of an endpoint of this host, and the endpoint at the other end.
struct OutgoingMessage {
    Endpoint from, to;
    std::span<const std::byte> bytes;  ///< in memory of `from`
};
struct IncomingMessage {
    Endpoint from, to;
    std::span<std::byte> bytes;  ///< in memory of `to`
};

/// Carries the messages of a round between hosts.
class RoundTransport {
public:
    virtual ~RoundTransport() = default;
    /// Throws Error if it cannot carry such rounds, which is the same on all ranks: nothing has moved then.
    virtual void require(std::span<const Round> rounds) const = 0;
    /// Returns when the messages have arrived and those that are sent need no more memory. Both lists are sorted by the
    /// pair of endpoints; all hosts call it for the same rounds. An Error may be this rank's alone.
    virtual void exchange(std::span<const OutgoingMessage> sent, std::span<const IncomingMessage> received) = 0;
};

/// The files of this host, by number; null: the file is elsewhere. Those of a GPU are in its memory.
struct RoundsMemory {
    std::span<const std::byte* const> sources;
    std::span<std::byte* const> targets;
};

/// How rounds are run.
struct RoundsRun {
    const mpi::Comm& comm;  ///< one rank for each host
    int host = 0;           ///< this rank's
    RoundTransport& transport;
    const std::atomic<int>* cancelled = nullptr;                             ///< as in ExecOptions
    std::function<void(std::size_t done, std::size_t total)> progress = {};  ///< in rounds; may be empty
};

/// Carries the moves of `rounds`: packs, exchanges and unpacks, round by round. Casts happen when elements are
/// unpacked. Precondition: can_copy() each move, and pieces do not overlap. Fails on all ranks with an mpi::AgreedError
/// if it fails on one; a cast that makes a finite value infinite is a failure. Targets may then contain anything.
/// Collective.
void run_rounds(const RoundsJob& job, std::span<const Round> rounds, const RoundsMemory& memory, const RoundsRun& run);

}  // namespace tpx
