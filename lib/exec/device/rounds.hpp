// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"

#include <compare>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

// Moves between memory of different hosts, cut into rounds that need little memory beside the state itself.
namespace tpx {

/// Memory that contains state: of a GPU, or the host's own.
struct Endpoint {
    int host = 0;
    int gpu = -1;  ///< its number on the host; -1: memory of the host

    friend auto operator<=>(const Endpoint&, const Endpoint&) = default;
};

/// A part of a move that one round carries: in row-major order of `box` and in the source's type, from byte `offset` of
/// its message on, which is a multiple of 16.
struct RemoteBox {
    std::uint32_t move = 0;
    Box box;
    std::uint64_t offset = 0;
};

/// What one endpoint sends to another one in one round: `size` bytes, at `sent_at` in the staging of the sender and at
/// `received_at` in that of the receiver.
struct RoundMessage {
    Endpoint from, to;
    std::uint64_t sent_at = 0;
    std::uint64_t received_at = 0;
    std::uint64_t size = 0;
    std::vector<RemoteBox> boxes;
};

/// The messages of one round; at most one for each pair of endpoints, sorted by pair.
using Round = std::vector<RoundMessage>;

/// What the rounds bring to the moves.
struct RoundsJob {
    const Moves& moves;
    Side source, target;
    std::span<const Endpoint> senders;       ///< the memory that sends each move, by move number
    std::span<const Endpoint> target_files;  ///< where each file of the target is, by number
};

/// The least staging that can carry every element.
inline constexpr std::uint64_t min_staging = 16;

/// Cuts those moves whose ends are on different hosts into rounds: each element is carried once, and in no round does
/// an endpoint send or receive more than `staging` bytes. Equal arguments have equal rounds. Precondition: `staging` is
/// at least min_staging.
std::vector<Round> plan_rounds(const RoundsJob& job, std::uint64_t staging);

/// The staging that an endpoint needs in rounds, in bytes: for what it sends, and for what it receives.
struct StagingNeed {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
};
StagingNeed staging_of(std::span<const Round> rounds, const Endpoint& endpoint);

/// The same, but only of messages for which `counts` returns true.
StagingNeed staging_of(std::span<const Round> rounds, const Endpoint& endpoint,
                       const std::function<bool(const RoundMessage&)>& counts);

/// The endpoints of the messages, sorted.
std::vector<Endpoint> endpoints_of(std::span<const Round> rounds);

/// The bytes of elements that the rounds carry between hosts.
std::uint64_t carried_bytes(std::span<const Round> rounds, const RoundsJob& job);

/// The same, but only of messages for which `counts` returns true.
std::uint64_t carried_bytes(std::span<const Round> rounds, const RoundsJob& job,
                            const std::function<bool(const RoundMessage&)>& counts);

}  // namespace tpx
