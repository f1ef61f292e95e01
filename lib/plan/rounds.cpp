// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/rounds.hpp"

#include "lib/plan/colouring.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tpx {
namespace {

constexpr std::uint64_t quanta_of_busiest = 64;

// All that goes from one host to another: transfers first up to last of those sorted by pair.
struct Pair {
    std::size_t first;
    std::size_t last;
    std::uint64_t bytes = 0;
    std::uint64_t relayed = 0;
    std::size_t first_link = 0;
    std::size_t links = 0;  // quanta, of equal size to the byte
};

class Scheduling {
public:
    Scheduling(std::vector<Transfer> transfers, const std::vector<bool>& relayed, std::uint32_t hosts)
        : transfers_{std::move(transfers)}, relayed_{relayed}, hosts_{hosts} {}

    Schedule run() {
        sort();
        find_pairs();
        const Colouring colouring = colour(cut(), hosts_);
        const std::vector<std::uint32_t> rounds = order(colouring);
        for (const Pair& pair : pairs_) {
            std::vector<std::uint32_t> own;
            for (std::size_t i = 0; i < pair.links; ++i) own.push_back(rounds[colouring.colour[pair.first_link + i]]);
            std::ranges::sort(own);
            split(pair, own);
        }
        std::ranges::stable_sort(result_.transfers, {}, &Transfer::round);
        result_.rounds = colouring.colours;
        return std::move(result_);
    }

private:
    void sort();
    void find_pairs();
    std::vector<Link> cut();
    std::vector<std::uint32_t> order(const Colouring& colouring) const;
    void split(const Pair& pair, const std::vector<std::uint32_t>& rounds);

    std::vector<Transfer> transfers_;
    const std::vector<bool>& relayed_;
    std::uint32_t hosts_;
    std::vector<std::uint32_t> sorted_;  // by pair; what is not relayed first
    std::vector<Pair> pairs_;
    Schedule result_;
};

void Scheduling::sort() {
    for (std::uint32_t i = 0; i < transfers_.size(); ++i) {
        if (transfers_[i].from == from_storage)
            result_.transfers.push_back(transfers_[i]);
        else
            sorted_.push_back(i);
    }
    const auto key = [&](std::uint32_t i) {
        const Transfer& it = transfers_[i];
        return std::tuple{it.from, it.to, relayed_[i], it.parcel, it.begin};
    };
    std::ranges::sort(sorted_, {}, key);
}

void Scheduling::find_pairs() {
    for (std::size_t i = 0; i < sorted_.size(); ++i) {
        const Transfer& it = transfers_[sorted_[i]];
        const Transfer& before = transfers_[sorted_[i == 0 ? 0 : i - 1]];
        if (i == 0 || it.from != before.from || it.to != before.to) pairs_.push_back({i, i});
        Pair& pair = pairs_.back();
        pair.last = i + 1;
        pair.bytes += it.end - it.begin;
        if (relayed_[sorted_[i]]) pair.relayed += it.end - it.begin;
    }
}

std::vector<Link> Scheduling::cut() {
    std::vector<std::uint64_t> out(hosts_);
    std::vector<std::uint64_t> in(hosts_);
    for (const Pair& pair : pairs_) {
        out[transfers_[sorted_[pair.first]].from] += pair.bytes;
        in[transfers_[sorted_[pair.first]].to] += pair.bytes;
    }
    std::uint64_t busiest = 0;
    for (std::uint32_t host = 0; host < hosts_; ++host) busiest = std::max({busiest, out[host], in[host]});
    const std::uint64_t quantum = std::max<std::uint64_t>(1, (busiest + quanta_of_busiest - 1) / quanta_of_busiest);
    std::vector<Link> links;
    for (Pair& pair : pairs_) {
        const Transfer& it = transfers_[sorted_[pair.first]];
        pair.first_link = links.size();
        pair.links = static_cast<std::size_t>((pair.bytes + quantum - 1) / quantum);
        links.insert(links.end(), pair.links, {it.from, it.to});
    }
    return links;
}

// The round of each colour: those with least to relay come first.
std::vector<std::uint32_t> Scheduling::order(const Colouring& colouring) const {
    std::vector<double> relays(colouring.colours);
    for (const Pair& pair : pairs_) {
        for (std::size_t i = 0; i < pair.links; ++i)
            relays[colouring.colour[pair.first_link + i]] +=
                static_cast<double>(pair.relayed) / static_cast<double>(pair.bytes);
    }
    std::vector<std::uint32_t> colours(colouring.colours);
    std::iota(colours.begin(), colours.end(), 0u);
    std::ranges::stable_sort(colours, {}, [&](std::uint32_t colour) { return relays[colour]; });
    std::vector<std::uint32_t> rounds(colouring.colours);
    for (std::uint32_t i = 0; i < colours.size(); ++i) rounds[colours[i]] = i;
    return rounds;
}

// Gives the bytes of a pair, in order, to its rounds.
void Scheduling::split(const Pair& pair, const std::vector<std::uint32_t>& rounds) {
    std::size_t quantum = 0;
    std::uint64_t position = 0;
    const auto end_of = [&](std::size_t i) {
        return static_cast<std::uint64_t>(static_cast<unsigned __int128>(pair.bytes) * (i + 1) / rounds.size());
    };
    for (std::size_t i = pair.first; i < pair.last; ++i) {
        Transfer piece = transfers_[sorted_[i]];
        const std::uint64_t end = piece.end;
        while (piece.begin < end) {
            while (end_of(quantum) == position) ++quantum;
            piece.end = std::min(end, piece.begin + (end_of(quantum) - position));
            piece.round = rounds[quantum];
            result_.transfers.push_back(piece);
            position += piece.end - piece.begin;
            piece.begin = piece.end;
        }
    }
}

}  // namespace

Schedule schedule(std::vector<Transfer> transfers, const std::vector<bool>& relayed, std::uint32_t hosts) {
    return Scheduling{std::move(transfers), relayed, hosts}.run();
}

}  // namespace tpx
