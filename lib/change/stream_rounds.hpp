// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/ports.hpp"
#include "lib/change/transfers.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// Bytes that hosts buffer to forward them later, by host and round.
class WaitingBytes {
public:
    explicit WaitingBytes(std::size_t hosts = 0) : bytes_(hosts) {}

    std::uint64_t at(std::size_t host, std::uint32_t round) const {
        return host < bytes_.size() && round < bytes_[host].size() ? bytes_[host][round] : 0;
    }
    /// The most bytes that `host` buffers in any round.
    std::uint64_t most(std::size_t host) const;

    /// Adds `bytes` in the rounds from `begin` up to `end`.
    void add(std::size_t host, std::uint32_t begin, std::uint32_t end, std::uint64_t bytes);

private:
    std::vector<std::vector<std::uint64_t>> bytes_;
};

/// Assigns rounds to streams, part by part. Each hop takes place in the first round after its bytes arrive in which
/// both hosts are free. A part starts as soon as no host would buffer too much of it and of earlier parts.
class StreamRounds {
public:
    /// Parts have about `quantum` bytes. A host sends and receives at most `room` bytes per round, and buffers at most
    /// `window` bytes, which must be at least 4 * `room`.
    StreamRounds(const Parcels& parcels, std::size_t hosts, std::uint64_t quantum, std::uint64_t room,
                 std::uint64_t window)
        : parcels_{parcels},
          quantum_{quantum},
          most_waiting_{window - 2 * room},
          ports_{hosts, room},
          waiting_{hosts},
          arrivals_(hosts),
          departures_(hosts) {}

    /// Appends the transfers of `streams`; returns the bytes that hosts buffer meanwhile.
    WaitingBytes place(std::span<const Stream> streams, std::vector<Transfer>& transfers);

    /// Reserves rounds in which `from` sends `bytes` more to `to`, in `parts` equal parts, and returns them.
    std::vector<std::uint32_t> fill(std::uint32_t from, std::uint32_t to, std::uint64_t bytes, std::size_t parts);

private:
    // Some of the bytes of a stream.
    struct StreamPart {
        std::uint32_t stream = 0;
        std::uint64_t rounds_left = 0;  // at least, from its start to the end of its stream
        std::vector<ParcelRange> ranges;
        std::uint64_t bytes = 0;
    };

    std::vector<StreamPart> cut(std::span<const Stream> streams) const;
    bool try_place(const Stream& stream, std::uint64_t bytes, std::uint32_t start);
    bool has_room(const Stream& stream, std::uint64_t bytes) const;

    const Parcels& parcels_;
    std::uint64_t quantum_;
    std::uint64_t most_waiting_;
    Ports ports_;
    WaitingBytes waiting_;
    // Of the part that is being placed:
    std::vector<std::uint32_t> rounds_;      // of each hop
    std::vector<std::uint32_t> arrivals_;    // of each host: when it receives
    std::vector<std::uint32_t> departures_;  // of each host: when it forwards for the last time
};

}  // namespace tpx
