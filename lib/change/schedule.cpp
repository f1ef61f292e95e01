// SPDX-License-Identifier: Apache-2.0
#include "lib/change/schedule.hpp"

#include "lib/change/cut_ranges.hpp"
#include "lib/change/stream_rounds.hpp"
#include "lib/core/error.hpp"
#include "lib/solve/edge_coloring.hpp"

#include <algorithm>
#include <tuple>

namespace tpx {
namespace {

// All direct transfers from one host to another: positions `first` up to `last` in the transfers sorted by pair.
struct Pair {
    std::size_t first;
    std::size_t last;
    std::uint64_t bytes = 0;
    std::size_t parts = 0;
};

class Scheduling {
public:
    Scheduling(Transfers transfers, const Parcels& parcels, std::size_t hosts, std::uint64_t window)
        : direct_{std::move(transfers.direct)},
          streams_{std::move(transfers.streams)},
          parcels_{parcels},
          hosts_{hosts},
          window_{window} {}

    Schedule run() {
        find_pairs();
        choose_quantum();
        for (Pair& pair : pairs_) pair.parts = static_cast<std::size_t>((pair.bytes + quantum_ - 1) / quantum_);
        if (streams_.empty())
            color_pairs();
        else
            fill_rounds();
        std::ranges::stable_sort(result_.transfers, {}, &Transfer::round);
        count_staging();
        number_rounds();
        return std::move(result_);
    }

private:
    void find_pairs();
    std::uint64_t busiest() const;
    void choose_quantum();
    void color_pairs();
    void fill_rounds();
    void split(const Pair& pair, std::span<const std::uint32_t> rounds);
    void count_staging();
    void number_rounds();

    std::vector<Transfer> direct_;
    std::vector<Stream> streams_;
    const Parcels& parcels_;
    std::size_t hosts_;
    std::uint64_t window_;
    std::uint64_t quantum_ = 0;  // most bytes that a host sends to another in a round, up to one element more
    std::uint64_t element_ = 1;  // bytes of the largest element
    std::vector<Pair> pairs_;
    WaitingBytes waiting_;
    Schedule result_;
};

void Scheduling::find_pairs() {
    const auto reads = [](const Transfer& it) { return it.from == from_storage; };
    std::ranges::copy_if(direct_, std::back_inserter(result_.transfers), reads);
    std::erase_if(direct_, reads);
    std::ranges::sort(direct_, {}, [](const Transfer& it) { return std::tuple{it.from, it.to, it.parcel, it.begin}; });
    for (std::size_t i = 0; i < direct_.size(); ++i) {
        const Transfer& it = direct_[i];
        if (i == 0 || it.from != direct_[i - 1].from || it.to != direct_[i - 1].to) pairs_.push_back({i, i});
        pairs_.back().last = i + 1;
        pairs_.back().bytes += it.end - it.begin;
    }
}

// The most bytes that one host sends or receives.
std::uint64_t Scheduling::busiest() const {
    std::vector<std::uint64_t> out(hosts_);
    std::vector<std::uint64_t> in(hosts_);
    for (const Pair& pair : pairs_) {
        out[direct_[pair.first].from] += pair.bytes;
        in[direct_[pair.first].to] += pair.bytes;
    }
    for (const Stream& stream : streams_) {
        for (const Hop& hop : stream.hops) {
            out[hop.from] += stream.bytes();
            in[hop.to] += stream.bytes();
        }
    }
    std::uint64_t most = 0;
    for (std::size_t host = 0; host < hosts_; ++host) most = std::max({most, out[host], in[host]});
    return most;
}

// A stream of depth n takes n rounds more than it has parts. Four times as many parts make that negligible, unless
// there would be too many transfers.
void Scheduling::choose_quantum() {
    constexpr std::uint64_t least_parts = 64;
    constexpr std::uint64_t most_forwards = 1 << 20;
    std::uint64_t parts = least_parts;
    std::uint64_t forwarded = 0;
    for (const Stream& stream : streams_) {
        parts = std::max(parts, 4 * (std::uint64_t{stream.hops.back().depth} + 1));
        forwarded += stream.hops.size() * stream.bytes();
    }
    for (const Parcel& parcel : parcels_.parcels) element_ = std::max<std::uint64_t>(element_, parcel.element);
    if (window_ < 8 * element_)
        throw Error{Exit::usage, "a window of {} bytes has no room for 8 elements of {} bytes", window_, element_};
    quantum_ = std::max({(busiest() + parts - 1) / parts, forwarded / most_forwards, element_});
    quantum_ = std::min(quantum_, window_ / 4 - element_);
}

// Finds the fewest rounds for parts of this size.
void Scheduling::color_pairs() {
    std::vector<Link> links;
    for (const Pair& pair : pairs_)
        links.insert(links.end(), pair.parts, {direct_[pair.first].from, direct_[pair.first].to});
    const EdgeColoring coloring = color(links, static_cast<std::uint32_t>(hosts_));
    std::span<const std::uint32_t> colors = coloring.color;
    for (const Pair& pair : pairs_) {
        split(pair, colors.first(pair.parts));
        colors = colors.subspan(pair.parts);
    }
}

// Places streams first. Direct transfers wait for nothing and fill the gaps, those of the busiest hosts first.
void Scheduling::fill_rounds() {
    StreamRounds streams{parcels_, hosts_, quantum_, quantum_ + element_, window_};
    waiting_ = streams.place(streams_, result_.transfers);
    std::vector<std::size_t> parts(hosts_);
    for (const Pair& pair : pairs_) {
        parts[direct_[pair.first].from] += pair.parts;
        parts[direct_[pair.first].to] += pair.parts;
    }
    std::ranges::stable_sort(pairs_, std::ranges::greater{}, [&](const Pair& pair) {
        return std::max(parts[direct_[pair.first].from], parts[direct_[pair.first].to]);
    });
    for (const Pair& pair : pairs_) {
        const Transfer& any = direct_[pair.first];
        split(pair, streams.fill(any.from, any.to, pair.bytes, pair.parts));
    }
}

void Scheduling::split(const Pair& pair, std::span<const std::uint32_t> rounds) {
    const auto transfers = std::span<const Transfer>{direct_}.subspan(pair.first, pair.last - pair.first);
    cut_ranges(transfers, pair.bytes, pair.parts, parcels_,
               [&](std::size_t part, const Transfer& whole, std::uint64_t begin, std::uint64_t end) {
                   result_.transfers.push_back({whole.parcel, whole.from, whole.to, begin, end, rounds[part]});
               });
}

void Scheduling::count_staging() {
    std::vector<std::uint64_t>& most = result_.staging;
    most.resize(hosts_);
    for (std::size_t host = 0; host < hosts_; ++host) most[host] = waiting_.most(host);
    std::vector<std::uint64_t> now(hosts_);
    const std::vector<Transfer>& all = result_.transfers;
    for (std::size_t i = 0; i < all.size();) {
        const std::size_t first = i;
        for (; i < all.size() && all[i].round == all[first].round; ++i) {
            if (all[i].from == from_storage) continue;
            const std::uint64_t bytes = all[i].end - all[i].begin;
            now[all[i].to] += bytes;
            if (!all[i].forwards) now[all[i].from] += bytes;
        }
        for (std::size_t k = first; k < i; ++k) {
            if (all[k].from == from_storage) continue;
            for (const std::uint32_t host : {all[k].from, all[k].to}) {
                if (now[host] > 0) most[host] = std::max(most[host], now[host] + waiting_.at(host, all[k].round));
                now[host] = 0;
            }
        }
    }
}

// Renumbers the rounds without gaps: a stream may have waited for memory while nothing else was sent.
void Scheduling::number_rounds() {
    std::uint32_t last = 0;
    for (Transfer& transfer : result_.transfers) {
        if (transfer.from == from_storage) continue;
        if (result_.rounds == 0 || transfer.round != last) ++result_.rounds;
        last = transfer.round;
        transfer.round = result_.rounds - 1;
    }
}

}  // namespace

Schedule schedule(Transfers transfers, const Parcels& parcels, std::size_t hosts, std::uint64_t window) {
    return Scheduling{std::move(transfers), parcels, hosts, window}.run();
}

}  // namespace tpx
