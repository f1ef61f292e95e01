// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/parcel.hpp"
#include "lib/change/relocation.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tpx {

/// The most bytes of a message.
inline constexpr std::uint64_t chunk_size = std::uint64_t{1} << 19;

/// A part of a transfer that is one message.
struct TransferChunk {
    std::uint32_t transfer = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

/// Bytes of a transfer that are sent in one turn.
struct TransferSegment {
    std::uint64_t step = 0;
    std::uint32_t turn = 0;  ///< in the step
    TransferChunk bytes;
};

/// The order of all transfers. The bytes from one host to another are split into segments, and in each step every such
/// pair of hosts sends the same share of its segments. So the parts of a tile, which come from several hosts, arrive
/// together, and the tile is written while other bytes are still in transit. In a turn of a step, each host sends to at
/// most one host and receives from at most one.
class TransferSchedule {
public:
    /// `transfers` are those of all `hosts` hosts, sorted by round. They and `parcels` must outlive this.
    TransferSchedule(const Parcels& parcels, std::span<const Transfer> transfers, std::size_t hosts);

    /// The segments of the transfers whose `side` is `host`, in their order.
    std::vector<TransferSegment> of_host(std::uint32_t host, std::uint32_t Transfer::*side) const;

private:
    void cut(std::uint32_t number, std::vector<TransferSegment>& segments_of_host) const;
    std::uint64_t end_of(std::uint32_t number, std::uint64_t segment) const;

    const Parcels& parcels_;
    std::span<const Transfer> transfers_;
    std::uint32_t hosts_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> bytes_;  // by hosts, from and to
    std::vector<std::uint64_t> before_;  // by transfer: bytes between the same hosts in earlier transfers
    std::uint64_t steps_ = 1;
    bool in_turns_ = true;
};

/// Iterates over the chunks of some segments.
class ChunkCursor {
public:
    ChunkCursor(const Parcels& parcels, std::span<const Transfer> transfers, std::vector<TransferSegment> segments)
        : parcels_{parcels}, transfers_{transfers}, segments_{std::move(segments)} {}

    /// The next chunk; nothing when all were taken.
    std::optional<TransferChunk> next() const;

    /// Advances to the chunk after `chunk`, which next() has returned.
    void advance(const TransferChunk& chunk);

private:
    const Parcels& parcels_;
    std::span<const Transfer> transfers_;
    std::vector<TransferSegment> segments_;
    std::size_t segment_ = 0;
    std::uint64_t done_ = 0;  // bytes of the segment
};

/// The number of messages in which exchange() sends the transfers of all hosts.
std::uint64_t count_messages(const Parcels& parcels, std::span<const Transfer> transfers, std::size_t hosts);

}  // namespace tpx
