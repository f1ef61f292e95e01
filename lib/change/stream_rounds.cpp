// SPDX-License-Identifier: Apache-2.0
#include "lib/change/stream_rounds.hpp"

#include "lib/change/cut_ranges.hpp"

#include <algorithm>

namespace tpx {

std::uint64_t WaitingBytes::most(std::size_t host) const {
    if (host >= bytes_.size() || bytes_[host].empty()) return 0;
    return *std::ranges::max_element(bytes_[host]);
}

void WaitingBytes::add(std::size_t host, std::uint32_t begin, std::uint32_t end, std::uint64_t bytes) {
    if (begin >= end) return;
    if (bytes_[host].size() < end) bytes_[host].resize(end);
    for (std::uint32_t round = begin; round < end; ++round) bytes_[host][round] += bytes;
}

// The parts of all streams; those with the most rounds left in their stream come first.
std::vector<StreamRounds::StreamPart> StreamRounds::cut(std::span<const Stream> streams) const {
    std::vector<StreamPart> parts;
    for (std::uint32_t s = 0; s < streams.size(); ++s) {
        const std::uint64_t bytes = streams[s].bytes();
        const auto count = static_cast<std::size_t>((bytes + quantum_ - 1) / quantum_);
        const std::size_t first = parts.size();
        parts.resize(first + count);
        cut_ranges(std::span{streams[s].ranges}, bytes, count, parcels_,
                   [&](std::size_t part, const ParcelRange& range, std::uint64_t begin, std::uint64_t end) {
                       StreamPart& it = parts[first + part];
                       it.ranges.push_back({range.parcel, begin, end});
                       it.bytes += end - begin;
                   });
        for (std::size_t i = 0; i < count; ++i) {
            parts[first + i].stream = s;
            parts[first + i].rounds_left = count - i + streams[s].hops.back().depth;
        }
    }
    std::erase_if(parts, [](const StreamPart& part) { return part.bytes == 0; });
    std::ranges::stable_sort(parts, std::ranges::greater{}, &StreamPart::rounds_left);
    return parts;
}

WaitingBytes StreamRounds::place(std::span<const Stream> streams, std::vector<Transfer>& transfers) {
    std::vector<std::uint32_t> starts(streams.size());  // no part starts earlier than the one before it
    for (const StreamPart& part : cut(streams)) {
        const Stream& stream = streams[part.stream];
        std::uint32_t& start = starts[part.stream];
        while (!try_place(stream, part.bytes, start)) ++start;
        for (std::size_t i = 0; i < stream.hops.size(); ++i) {
            const Hop& hop = stream.hops[i];
            for (const ParcelRange& range : part.ranges)
                transfers.push_back(
                    {range.parcel, hop.from, hop.to, range.begin, range.end, rounds_[i], hop.depth > 0});
        }
    }
    return waiting_;
}

// Finds rounds for all hops. Returns false and changes nothing if a host would buffer too much.
bool StreamRounds::try_place(const Stream& stream, std::uint64_t bytes, std::uint32_t start) {
    rounds_.clear();
    for (const Hop& hop : stream.hops) {
        const std::uint32_t earliest = hop.depth == 0 ? start : arrivals_[hop.from] + 1;
        const std::uint32_t round = ports_.find(hop.from, hop.to, bytes, earliest);
        ports_.take(hop.from, hop.to, bytes, round);
        rounds_.push_back(round);
        arrivals_[hop.to] = departures_[hop.to] = round;
        if (hop.depth > 0) departures_[hop.from] = std::max(departures_[hop.from], round);
    }
    if (has_room(stream, bytes)) {
        for (const Hop& hop : stream.hops) waiting_.add(hop.to, arrivals_[hop.to] + 1, departures_[hop.to] + 1, bytes);
        return true;
    }
    for (std::size_t i = 0; i < stream.hops.size(); ++i)
        ports_.release(stream.hops[i].from, stream.hops[i].to, bytes, rounds_[i]);
    return false;
}

bool StreamRounds::has_room(const Stream& stream, std::uint64_t bytes) const {
    return std::ranges::all_of(stream.hops, [&](const Hop& hop) {
        for (std::uint32_t round = arrivals_[hop.to] + 1; round <= departures_[hop.to]; ++round) {
            if (waiting_.at(hop.to, round) + bytes > most_waiting_) return false;
        }
        return true;
    });
}

std::vector<std::uint32_t> StreamRounds::fill(std::uint32_t from, std::uint32_t to, std::uint64_t bytes,
                                              std::size_t parts) {
    const std::uint64_t each = (bytes + parts - 1) / parts;
    std::vector<std::uint32_t> rounds;
    for (std::size_t i = 0; i < parts; ++i) {
        rounds.push_back(ports_.find(from, to, each, rounds.empty() ? 0 : rounds.back()));
        ports_.take(from, to, each, rounds.back());
    }
    return rounds;
}

}  // namespace tpx
