// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/device/rounds.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace tpx {
namespace {

constexpr std::uint64_t staging_unit = 16;  // bytes that a thread of a GPU loads at once

std::uint64_t in_units(std::uint64_t bytes) { return (bytes + staging_unit - 1) / staging_unit * staging_unit; }

int source_itemsize(const RoundsJob& job, std::uint32_t move) {
    return itemsize(job.source.tensors[job.source.pieces[job.moves[move].source].tensor].dtype);
}

/// What is left to carry from one endpoint to another.
struct PairQueue {
    std::vector<std::uint32_t> moves;
    std::size_t next = 0;
    std::vector<std::pair<std::uint32_t, Box>> rests;  // of a move that was cut, the last one first

    std::optional<std::pair<std::uint32_t, Box>> take(const RoundsJob& job) {
        if (!rests.empty()) {
            auto rest = rests.back();
            rests.pop_back();
            return rest;
        }
        if (next == moves.size()) return std::nullopt;
        const std::uint32_t move = moves[next++];
        return std::pair{move, job.moves[move].box};
    }
};

/// Cuts a box down to its first elements, at most `most`, and puts the rest back. Precondition: `most` is positive.
Box cut(PairQueue& queue, std::uint32_t move, Box box, Index most) {
    for (int axis = 0; volume(box) > most; ++axis) {
        const Index rows = box[axis].size();
        if (rows == 1) continue;
        const Index kept = std::max<Index>(1, most / (volume(box) / rows));
        Box rest = box;
        rest[axis].begin += kept;
        box[axis].end = rest[axis].begin;
        queue.rests.emplace_back(move, rest);
    }
    return box;
}

/// Takes what fits into `room` bytes.
void fill(RoundMessage& message, PairQueue& queue, const RoundsJob& job, std::uint64_t room) {
    while (const auto taken = queue.take(job)) {
        const auto& [move, box] = *taken;
        const auto size = static_cast<std::uint64_t>(source_itemsize(job, move));
        const std::uint64_t begin = in_units(message.size);
        if (begin + size > room) return queue.rests.push_back(*taken);
        const Box part = cut(queue, move, box, static_cast<Index>((room - begin) / size));
        message.boxes.push_back({move, part, begin});
        message.size = begin + static_cast<std::uint64_t>(volume(part)) * size;
    }
}

using Queues = std::map<std::pair<Endpoint, Endpoint>, PairQueue>;

Queues queues_of(const RoundsJob& job) {
    Queues queues;
    for (std::uint32_t k = 0; k < job.moves.size(); ++k) {
        const Move& move = job.moves[k];
        const Endpoint& from = job.senders[k];
        const Endpoint& to = job.target_files[job.target.pieces[move.target].file];
        if (from.host != to.host && volume(move.box) > 0) queues[{from, to}].moves.push_back(k);
    }
    return queues;
}

}  // namespace

std::vector<Round> plan_rounds(const RoundsJob& job, std::uint64_t staging) {
    if (staging < min_staging) throw failure("{} bytes of staging; at least {} are needed", staging, min_staging);
    staging = staging / staging_unit * staging_unit;
    Queues queues = queues_of(job);
    std::vector<Round> rounds;
    while (!queues.empty()) {
        Round round;
        std::map<Endpoint, StagingNeed> used;
        // Each round begins with another pair, so that one which comes late in the order need not wait for the others.
        auto pair = std::next(queues.begin(), static_cast<std::ptrdiff_t>(rounds.size() % queues.size()));
        for (std::size_t left = queues.size(); left > 0; --left) {
            auto& [ends, queue] = *pair;
            std::uint64_t& sent = used[ends.first].sent;
            std::uint64_t& received = used[ends.second].received;
            RoundMessage message{ends.first, ends.second, sent, received, 0, {}};
            fill(message, queue, job, staging - std::max(sent, received));
            sent += in_units(message.size);
            received += in_units(message.size);
            if (message.size > 0) round.push_back(std::move(message));
            if (++pair == queues.end()) pair = queues.begin();
        }
        std::ranges::sort(round, {}, [](const RoundMessage& one) { return std::pair{one.from, one.to}; });
        rounds.push_back(std::move(round));
        std::erase_if(queues, [](const auto& entry) {
            return entry.second.rests.empty() && entry.second.next == entry.second.moves.size();
        });
    }
    return rounds;
}

StagingNeed staging_of(std::span<const Round> rounds, const Endpoint& endpoint) {
    return staging_of(rounds, endpoint, [](const RoundMessage&) { return true; });
}

StagingNeed staging_of(std::span<const Round> rounds, const Endpoint& endpoint,
                       const std::function<bool(const RoundMessage&)>& counts) {
    StagingNeed need;
    for (const Round& round : rounds)
        for (const RoundMessage& message : round) {
            if (!counts(message)) continue;
            if (message.from == endpoint) need.sent = std::max(need.sent, message.sent_at + message.size);
            if (message.to == endpoint) need.received = std::max(need.received, message.received_at + message.size);
        }
    return need;
}

std::vector<Endpoint> endpoints_of(std::span<const Round> rounds) {
    std::set<Endpoint> found;
    for (const Round& round : rounds)
        for (const RoundMessage& message : round) found.insert({message.from, message.to});
    return {found.begin(), found.end()};
}

std::uint64_t carried_bytes(std::span<const Round> rounds, const RoundsJob& job) {
    return carried_bytes(rounds, job, [](const RoundMessage&) { return true; });
}

std::uint64_t carried_bytes(std::span<const Round> rounds, const RoundsJob& job,
                            const std::function<bool(const RoundMessage&)>& counts) {
    std::uint64_t bytes = 0;
    for (const Round& round : rounds)
        for (const RoundMessage& message : round) {
            if (!counts(message)) continue;
            for (const RemoteBox& part : message.boxes)
                bytes += static_cast<std::uint64_t>(volume(part.box) * source_itemsize(job, part.move));
        }
    return bytes;
}

}  // namespace tpx
