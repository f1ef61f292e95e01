// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/measure.hpp"

#include "lib/core/clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <sstream>
#include <thread>

namespace tpx {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int message = 256 << 10;
constexpr int in_flight = 4;
constexpr int samples = 5;
void send(const mpi::Comm& comm, int peer, const void* data, std::size_t size) {
    mpi::send_busy(comm, peer, mpi::Tag::link, {static_cast<const std::byte*>(data), size});
}

void receive(const mpi::Comm& comm, int peer, void* data, std::size_t size) {
    mpi::receive_busy(comm, peer, mpi::Tag::link, {static_cast<std::byte*>(data), size});
}

// Seconds for 8 bytes to go one way, from 200 round trips, or fewer (at least 20) if these take longer than `seconds`.
// In each message, the first rank says whether it is the last one. The times of the first tenth are dropped.
MeasuredValue ping(const mpi::Comm& comm, int peer, bool first, double seconds) {
    constexpr int most = 200, least = 20;
    std::vector<double> values;
    const Clock::time_point begin = Clock::now();
    for (std::int64_t last = 0, i = 0; last == 0; ++i) {
        const Clock::time_point start = Clock::now();
        last = i + 1 >= most || (i + 1 >= least && seconds_since(begin) > seconds);
        if (first) send(comm, peer, &last, sizeof last);
        receive(comm, peer, &last, sizeof last);
        if (!first) send(comm, peer, &last, sizeof last);
        values.push_back(seconds_since(start) / 2);
    }
    values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 10));
    return summarize(values);
}

// Sends `count` messages, several at a time, and waits until the other side confirms that all have arrived. Returns the
// seconds.
double stream(const mpi::Comm& comm, int peer, std::span<const std::byte> data, int count) {
    const Clock::time_point start = Clock::now();
    std::array<mpi::Request, in_flight> requests;
    for (int i = 0; i < count; ++i) {
        mpi::Request& request = requests[i % in_flight];
        request.wait_busy();
        request = mpi::start_send(comm, peer, mpi::Tag::link, data);
    }
    for (mpi::Request& request : requests) request.wait_busy();
    char word = 0;
    receive(comm, peer, &word, 1);
    return seconds_since(start);
}

// The sender's side: a few messages to estimate the rate, then samples that take `seconds` in all, fewer if the link is
// slow. The few messages are not counted: rate-limited links let a first burst through. The rate is that of all samples
// together, including the pauses between them: otherwise, a link that catches up after a pause would look faster.
MeasuredValue send_samples(const mpi::Comm& comm, int peer, double seconds) {
    const std::vector<std::byte> data(message, std::byte{'x'});
    std::vector<double> rates;
    double sent = 0, taken = 0;
    const Clock::time_point start = Clock::now();
    Clock::time_point warm = start;
    int count = 4;
    for (int sample = 0; sample <= samples; ++sample) {
        if (rates.size() >= 2 && seconds_since(start) > 1.5 * seconds) break;
        send(comm, peer, &count, sizeof count);
        const double bytes = static_cast<double>(count) * message;
        const double time = stream(comm, peer, data, count);
        if (sample == 0) {
            warm = Clock::now();
        } else {
            rates.push_back(bytes / time);
            sent += bytes;
            taken = seconds_since(warm);
        }
        count = std::clamp(static_cast<int>(bytes / time * seconds / samples / message), 8, 1 << 16);
    }
    count = 0;
    send(comm, peer, &count, sizeof count);
    return {sent / taken, summarize(rates).spread};
}

void receive_samples(const mpi::Comm& comm, int peer) {
    std::vector<std::vector<std::byte>> buffers(in_flight, std::vector<std::byte>(message));
    for (int count = 0;;) {
        receive(comm, peer, &count, sizeof count);
        if (count == 0) return;
        std::array<mpi::Request, in_flight> requests;
        for (int i = 0; i < count; ++i) {
            mpi::Request& request = requests[i % in_flight];
            request.wait_busy();
            request = mpi::start_receive(comm, peer, mpi::Tag::link, buffers[i % in_flight]);
        }
        for (mpi::Request& request : requests) request.wait_busy();
        const char word = 1;
        send(comm, peer, &word, 1);
    }
}

// Rounds in which each of `count` players meets every other player once. round[k] is the player that k meets, or
// -1 for none.
std::vector<std::vector<int>> tournament(int count) {
    // The circle method: one player stays, the others move on by one seat each round.
    const int seats = count + count % 2;
    std::vector<std::vector<int>> rounds;
    for (int round = 0; round + 1 < seats; ++round) {
        std::vector<int> meets(count, -1);
        for (int k = 0; k < seats / 2; ++k) {
            const int a = k == 0 ? seats - 1 : (round + k) % (seats - 1);
            const int b = (round - k + seats - 1) % (seats - 1);
            if (a >= count || b >= count) continue;
            meets[a] = b;
            meets[b] = a;
        }
        rounds.push_back(std::move(meets));
    }
    return rounds;
}

std::vector<LinkRates> parse_links(const std::vector<std::string>& texts) {
    std::vector<LinkRates> links;
    for (const std::string& text : texts) {
        std::istringstream words{text};
        LinkRates link;
        while (words >> link.from >> link.to >> link.latency.median >> link.latency.spread >> link.rate.median >>
               link.rate.spread)
            links.push_back(link);
    }
    std::ranges::sort(
        links, [](const LinkRates& a, const LinkRates& b) { return a.from != b.from ? a.from < b.from : a.to < b.to; });
    return links;
}

}  // namespace

std::vector<PairRound> rounds_of_all(const std::vector<int>& ranks, int most) {
    constexpr std::size_t few = 8;
    std::vector<PairRound> rounds;
    for (const std::vector<int>& meets : tournament(static_cast<int>(ranks.size()))) {
        PairRound round;
        for (std::size_t k = 0; k < meets.size(); ++k)
            if (meets[k] > static_cast<int>(k)) round.emplace_back(ranks[k], ranks[meets[k]]);
        if (ranks.size() > few)
            rounds.push_back(std::move(round));
        else
            for (const auto& pair : round) rounds.push_back({pair});
    }
    const auto limit = static_cast<std::size_t>(std::max(most, 1));
    if (ranks.size() <= few || rounds.size() <= limit) return rounds;
    std::vector<PairRound> some;
    for (std::size_t i = 0; i < limit; ++i) some.push_back(rounds[i * rounds.size() / limit]);
    return some;
}

void wait_quietly(const mpi::Comm& comm) {
    if (comm.size() == 1) return;
    mpi::Request request = mpi::start_barrier(comm);
    while (!request.test()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
}

std::vector<LinkRates> measure_links(const mpi::Comm& comm, const std::vector<PairRound>& rounds, double seconds) {
    const double slice = seconds / std::max<double>(1, static_cast<double>(rounds.size()));
    std::string mine;
    for (const PairRound& round : rounds) {
        const auto own = std::ranges::find_if(
            round, [&](const auto& pair) { return pair.first == comm.rank() || pair.second == comm.rank(); });
        if (own != round.end()) {
            const bool first = (*own).first == comm.rank();
            const int peer = first ? (*own).second : (*own).first;
            const MeasuredValue latency = ping(comm, peer, first, 0.1 * slice);
            MeasuredValue rate;
            if (first) rate = send_samples(comm, peer, 0.4 * slice);
            receive_samples(comm, peer);
            if (!first) rate = send_samples(comm, peer, 0.4 * slice);
            mine += fmt::format("{} {} {} {} {} {}\n", comm.rank(), peer, latency.median, latency.spread, rate.median,
                                rate.spread);
        }
        wait_quietly(comm);
    }
    return parse_links(mpi::gather(comm, mine));
}

}  // namespace tpx
