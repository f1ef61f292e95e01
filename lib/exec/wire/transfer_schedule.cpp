// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/wire/transfer_schedule.hpp"

#include <algorithm>
#include <tuple>

namespace tpx {
namespace {

constexpr std::uint64_t segment_size = std::uint64_t{1} << 19;

std::uint64_t segments_of(std::uint64_t bytes) { return (bytes + segment_size - 1) / segment_size; }

}  // namespace

TransferSchedule::TransferSchedule(const ExchangeJob& job) : job_{job} {
    const auto pair = [](const Transfer& transfer) { return std::pair{transfer.from, transfer.to}; };
    for (const Transfer& transfer : job.transfers) {
        std::uint64_t& bytes = bytes_[pair(transfer)];
        before_.push_back(bytes);
        bytes += transfer.end - transfer.begin;
        in_turns_ = in_turns_ && !transfer.forwards;
    }
    for (const auto& [hosts, bytes] : bytes_) steps_ = std::max(steps_, segments_of(bytes));
}

std::vector<TransferSegment> TransferSchedule::of_host(std::uint32_t Transfer::*side) const {
    std::vector<TransferSegment> own;
    for (std::uint32_t k = 0; k < job_.transfers.size(); ++k)
        if (job_.transfers[k].*side == job_.host) cut(k, own);
    // What is forwarded must have come before, as it has in the order of the transfers.
    if (in_turns_)
        std::ranges::stable_sort(own, {}, [](const TransferSegment& segment) {
            return std::tuple{segment.step, segment.turn, segment.bytes.transfer};
        });
    return own;
}

void TransferSchedule::cut(std::uint32_t number, std::vector<TransferSegment>& segments_of_host) const {
    const Transfer& transfer = job_.transfers[number];
    const auto hosts = static_cast<std::uint32_t>(job_.rank_of_host.size());
    const std::uint32_t turn = (transfer.to + hosts - transfer.from) % hosts;
    const std::uint64_t count = segments_of(bytes_.at({transfer.from, transfer.to}));
    for (std::uint64_t begin = transfer.begin; begin < transfer.end;) {
        const std::uint64_t segment = (before_[number] + begin - transfer.begin) / segment_size;
        const std::uint64_t end = std::min(transfer.end, end_of(number, segment));
        if (end > begin) segments_of_host.push_back({segment * steps_ / count, turn, {number, begin, end}});
        begin = end;
    }
}

// Where a segment of a pair ends in a transfer, after an element.
std::uint64_t TransferSchedule::end_of(std::uint32_t number, std::uint64_t segment) const {
    const Transfer& transfer = job_.transfers[number];
    const Parcel& parcel = job_.parcels.parcels[transfer.parcel];
    const std::uint64_t end = transfer.begin + (segment + 1) * segment_size - before_[number];
    return parcel.align(end + parcel.element - 1);
}

std::optional<TransferChunk> ChunkCursor::next() const {
    if (segment_ == segments_.size()) return std::nullopt;
    TransferChunk chunk = segments_[segment_].bytes;
    const Parcel& parcel = parcels_.parcels[transfers_[chunk.transfer].parcel];
    // A message ends where an element does; elements are far smaller.
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

}  // namespace tpx
