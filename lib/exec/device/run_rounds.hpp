// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/error.hpp"
#include "lib/exec/device/rounds.hpp"
#include "lib/exec/exec_options.hpp"
#include "lib/exec/mpi.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>

namespace tpx {

/// Bytes of a message in the staging of an endpoint of this host, and the endpoint at the other end.
struct OutgoingMessage {
    Endpoint from, to;
    std::span<const std::byte> bytes;  ///< in memory of the GPU `from`, or of its host
};
struct IncomingMessage {
    Endpoint from, to;
    std::span<std::byte> bytes;  ///< in memory of the GPU `to`, or of its host
};

/// Carries the messages of a round between hosts.
class RoundTransport {
public:
    virtual ~RoundTransport() = default;
    /// Whether it carries messages between these endpoints from memory of one GPU to memory of the other one.
    /// Otherwise, the bytes of a message are in memory of the host.
    virtual bool is_in_gpu_memory(const Endpoint& from, const Endpoint& to) const = 0;
    /// Returns when all messages have arrived and the memory of sent ones can be reused. Both lists are sorted by the
    /// pair of endpoints; all hosts call it for the same rounds. An Error may be this rank's alone: the other ranks
    /// then return, or throw OtherRankFailed.
    virtual void exchange(std::span<const OutgoingMessage> sent, std::span<const IncomingMessage> received) = 0;
};

/// Thrown by a rank that stops because another rank has failed; that rank has its own error.
struct OtherRankFailed : Error {
    explicit OtherRankFailed(const Error& reason) : Error{reason} {}
};

/// Runs `body`, which may communicate, on all ranks. Throws an mpi::AgreedError if it fails on one of them: with the
/// error of a rank that did not stop because of another one. Collective.
template <class Body>
void agree_on_exchange(const mpi::Comm& comm, Body&& body) {
    std::exception_ptr error;
    bool is_stopped = false;
    try {
        body();
    } catch (const OtherRankFailed&) {
        is_stopped = true;
    } catch (...) {
        error = std::current_exception();
    }
    mpi::agree_on(comm, error);
    if (is_stopped) throw failure("another rank failed without reporting an error");
}

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
    std::span<const SourceFile> files;                                       ///< of the source, for error messages
    const std::atomic<int>* cancelled = nullptr;                             ///< as in ExecOptions
    std::function<void(std::size_t done, std::size_t total)> progress = {};  ///< in rounds; may be empty
};

/// Carries the moves of `rounds`: packs, exchanges and unpacks, round by round. Kernels pack elements that are in GPU
/// memory and unpack elements that go there. Their staging is in memory of that GPU if the transport sends from and
/// receives in GPU memory, otherwise in pinned host memory. Casts happen when elements are unpacked. Precondition:
/// can_copy() each move, and pieces do not overlap. Fails on all ranks with an mpi::AgreedError if it fails on one; a
/// cast that makes a finite value infinite is a failure. Targets may then contain anything. Collective.
void run_rounds(const RoundsJob& job, std::span<const Round> rounds, const RoundsMemory& memory, const RoundsRun& run);

}  // namespace tpx
