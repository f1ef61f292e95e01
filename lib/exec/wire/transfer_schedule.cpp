// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/wire/transfer_schedule.hpp"

#include <algorithm>
#include <tuple>

namespace tpx {
namespace {

constexpr std::uint64_t segment_size = std::uint64_t{1} << 19;

std::uint64_t segments_of(std::uint64_t bytes) { return (bytes + segment_size - 1) / segment_size; }

}  // namespace

TransferSchedule::TransferSchedule(const Parcels& parcels, std::span<const Transfer> transfers, std::size_t hosts)
    : parcels_{parcels}, transfers_{transfers}, hosts_{static_cast<std::uint32_t>(hosts)} {
    const auto pair = [](const Transfer& transfer) { return std::pair{transfer.from, transfer.to}; };
    for (const Transfer& transfer : transfers) {
        std::uint64_t& bytes = bytes_[pair(transfer)];
        before_.push_back(bytes);
        bytes += transfer.end - transfer.begin;
        in_turns_ = in_turns_ && !transfer.forwards;
    }
    for (const auto& [pair_of_hosts, bytes] : bytes_) steps_ = std::max(steps_, segments_of(bytes));
}

std::vector<TransferSegment> TransferSchedule::of_host(std::uint32_t host, std::uint32_t Transfer::*side) const {
    std::vector<TransferSegment> own;
    for (std::uint32_t k = 0; k < transfers_.size(); ++k)
        if (transfers_[k].*side == host) cut(k, own);
    // A host must receive bytes before it forwards them, which the order of the transfers ensures.
    if (in_turns_)
        std::ranges::stable_sort(own, {}, [](const TransferSegment& segment) {
            return std::tuple{segment.step, segment.turn, segment.bytes.transfer};
        });
    return own;
}

void TransferSchedule::cut(std::uint32_t number, std::vector<TransferSegment>& segments_of_host) const {
    const Transfer& transfer = transfers_[number];
    const std::uint32_t turn = (transfer.to + hosts_ - transfer.from) % hosts_;
    const std::uint64_t count = segments_of(bytes_.at({transfer.from, transfer.to}));
    for (std::uint64_t begin = transfer.begin; begin < transfer.end;) {
        const std::uint64_t segment = (before_[number] + begin - transfer.begin) / segment_size;
        const std::uint64_t end = std::min(transfer.end, end_of(number, segment));
        if (end > begin) segments_of_host.push_back({segment * steps_ / count, turn, {number, begin, end}});
        begin = end;
    }
}

// Where a segment of a pair of hosts ends in a transfer, at the end of an element.
std::uint64_t TransferSchedule::end_of(std::uint32_t number, std::uint64_t segment) const {
    const Transfer& transfer = transfers_[number];
    const Parcel& parcel = parcels_.parcels[transfer.parcel];
    const std::uint64_t end = transfer.begin + (segment + 1) * segment_size - before_[number];
    return parcel.align(end + parcel.element - 1);
}

std::optional<TransferChunk> ChunkCursor::next() const {
    if (segment_ == segments_.size()) return std::nullopt;
    TransferChunk chunk = segments_[segment_].bytes;
    const Parcel& parcel = parcels_.parcels[transfers_[chunk.transfer].parcel];
    // A message ends at the end of an element; elements are far smaller than messages.
    chunk.begin += done_;
    chunk.end = std::min(chunk.end, parcel.align(chunk.begin + chunk_size));
    return chunk;
}

void ChunkCursor::advance(const TransferChunk& chunk) {
    done_ += chunk.end - chunk.begin;
    if (chunk.end < segments_[segment_].bytes.end) return;
    ++segment_;
    done_ = 0;
}

std::uint64_t count_messages(const Parcels& parcels, std::span<const Transfer> transfers, std::size_t hosts) {
    const TransferSchedule schedule{parcels, transfers, hosts};
    std::uint64_t count = 0;
    for (std::uint32_t host = 0; host < hosts; ++host) {
        ChunkCursor cursor{parcels, transfers, schedule.of_host(host, &Transfer::from)};
        for (auto chunk = cursor.next(); chunk; chunk = cursor.next(), ++count) cursor.advance(*chunk);
    }
    return count;
}

}  // namespace tpx
