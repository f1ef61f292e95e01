// SPDX-License-Identifier: Apache-2.0
#include "lib/check/moving.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace tpx {
namespace {

using Transfers = std::span<const std::uint32_t>;

/// The transfers of one parcel, by receiving host and first byte.
class Delivery {
public:
    Delivery(const Facts& facts, std::uint32_t parcel, Transfers transfers)
        : facts_{facts}, t_{facts.t.transfers}, parcel_{parcel}, transfers_{transfers} {}

    void check() {
        const std::vector<std::int32_t> missing = facts_.missing(parcel_);
        Transfers left = transfers_;
        for (std::int32_t host : missing) left = left.subspan(check_tiles(host, left));
        if (!left.empty())
            throw failure("parcel {}: transfer {} goes to host '{}', which needs none of it", parcel_, left.front(),
                          name(t_.to[left.front()]));
        check_groups(missing);
        bool relayed = false;
        for (std::uint32_t transfer : transfers_) relayed = !holds_source(transfer) || relayed;
        if (relayed) check_relays(missing);
    }

private:
    const std::string& name(std::uint32_t host) const { return facts_.t.hosts.name[host]; }

    /// How many of `transfers` go to `host`; they must be its bytes in order.
    std::size_t check_tiles(std::int32_t host, Transfers transfers) const {
        std::uint64_t next = 0;
        std::size_t count = 0;
        for (; count < transfers.size() && t_.to[transfers[count]] == static_cast<std::uint32_t>(host); ++count) {
            if (t_.begin[transfers[count]] != next) break;
            next = t_.end[transfers[count]];
        }
        if (next != facts_.t.parcels.bytes[parcel_])
            throw failure("parcel {}: host '{}' is not sent byte {} of {} once", parcel_,
                          name(static_cast<std::uint32_t>(host)), next, facts_.t.parcels.bytes[parcel_]);
        return count;
    }

    /// Whether a transfer comes from where the bytes were to begin with.
    bool holds_source(std::uint32_t transfer) const {
        const std::uint32_t from = t_.from[transfer];
        const auto holding = facts_.holding(parcel_);
        if (from == storage_host) {
            if (!holding.empty())
                throw failure("parcel {}: transfer {} is read from storage, though host '{}' holds it", parcel_,
                              transfer, name(static_cast<std::uint32_t>(holding[0])));
            return true;
        }
        return std::ranges::binary_search(holding, static_cast<std::int32_t>(from));
    }

    void check_groups(std::span<const std::int32_t> missing) const;
    std::uint32_t into(std::int32_t host, std::uint64_t byte) const;
    void check_relays(std::span<const std::int32_t> missing) const;
    void check_byte(std::span<const std::int32_t> missing, std::uint64_t byte) const;

    const Facts& facts_;
    const decltype(HostTables::transfers)& t_;
    std::uint32_t parcel_;
    Transfers transfers_;
};

/// Into a switch group with holders nothing comes from outside, into another one each byte once.
void Delivery::check_groups(std::span<const std::int32_t> missing) const {
    const auto& group = facts_.t.hosts.switch_group;
    std::set<std::string_view> held;
    for (std::int32_t host : facts_.holding(parcel_)) held.insert(group[host]);
    if (held.empty()) return;
    std::map<std::string_view, std::uint64_t> entered;
    for (std::int32_t host : missing) {
        if (!held.contains(group[host])) entered[group[host]] = 0;
    }
    for (std::uint32_t transfer : transfers_) {
        const std::string& to = group[t_.to[transfer]];
        if (t_.from[transfer] == storage_host || group[t_.from[transfer]] == to) continue;
        if (held.contains(to))
            throw failure("parcel {}: transfer {} comes from outside the receiver's switch group '{}'", parcel_,
                          transfer, to);
        entered[to] += t_.end[transfer] - t_.begin[transfer];
    }
    for (const auto& [name, bytes] : entered) {
        if (bytes != facts_.t.parcels.bytes[parcel_])
            throw failure("parcel {}: {} bytes come into switch group '{}', of {}", parcel_, bytes, name,
                          facts_.t.parcels.bytes[parcel_]);
    }
}

/// The transfer that brings `byte` to `host`, which is one of those that are sent it.
std::uint32_t Delivery::into(std::int32_t host, std::uint64_t byte) const {
    const auto key = std::pair{static_cast<std::uint32_t>(host), byte};
    const auto after = std::ranges::upper_bound(transfers_, key, {}, [&](std::uint32_t transfer) {
        return std::pair{t_.to[transfer], t_.begin[transfer]};
    });
    return *(after - 1);
}

void Delivery::check_relays(std::span<const std::int32_t> missing) const {
    for (std::uint32_t transfer : transfers_) {
        if (!holds_source(transfer) &&
            !std::ranges::binary_search(missing, static_cast<std::int32_t>(t_.from[transfer])))
            throw failure("parcel {}: transfer {} comes from host '{}', which never has it", parcel_, transfer,
                          name(t_.from[transfer]));
    }
    // Between two ends of transfers, all bytes take the same way.
    std::vector<std::uint64_t> begins;
    for (std::uint32_t transfer : transfers_) begins.push_back(t_.begin[transfer]);
    std::ranges::sort(begins);
    const auto end = std::ranges::unique(begins).begin();
    for (auto byte = begins.begin(); byte != end; ++byte) check_byte(missing, *byte);
}

void Delivery::check_byte(std::span<const std::int32_t> missing, std::uint64_t byte) const {
    enum class State : std::uint8_t { unknown, on_the_way, reached };
    std::vector<State> states(missing.size(), State::unknown);
    std::vector<std::size_t> path;
    for (std::size_t start = 0; start < missing.size(); ++start) {
        path.clear();
        for (std::size_t at = start; states[at] != State::reached;) {
            if (states[at] == State::on_the_way)
                throw failure("parcel {}: byte {} goes round in a circle at host '{}'", parcel_, byte,
                              name(static_cast<std::uint32_t>(missing[at])));
            states[at] = State::on_the_way;
            path.push_back(at);
            const std::uint32_t transfer = into(missing[at], byte);
            if (holds_source(transfer)) break;
            const auto from = std::ranges::lower_bound(missing, static_cast<std::int32_t>(t_.from[transfer]));
            at = static_cast<std::size_t>(from - missing.begin());
        }
        for (std::size_t at : path) states[at] = State::reached;
    }
}

/// Throws when in some round one host has two partners; each entry is round, host, partner. Returns how many rounds the
/// host takes part in that takes part in most.
std::uint64_t check_partners(std::vector<std::array<std::uint32_t, 3>>& entries, const Facts& facts,
                             std::string_view verb) {
    std::ranges::sort(entries);
    for (std::size_t i = 1; i < entries.size(); ++i) {
        const auto& [round, host, partner] = entries[i];
        if (entries[i - 1][0] == round && entries[i - 1][1] == host && entries[i - 1][2] != partner)
            throw failure("round {}: host '{}' {} two hosts", round, facts.t.hosts.name[host], verb);
    }
    std::vector<std::uint64_t> rounds(facts.hosts(), 0);
    for (std::size_t i = 0; i < entries.size(); ++i)
        rounds[entries[i][1]] += i == 0 || entries[i - 1][0] != entries[i][0] || entries[i - 1][1] != entries[i][1];
    return rounds.empty() ? 0 : *std::ranges::max_element(rounds);
}

}  // namespace

void check_transfers(const Facts& facts) {
    const auto& t = facts.t.transfers;
    std::vector<std::uint32_t> order(t.parcel.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::sort(order, {}, [&](std::uint32_t i) { return std::tuple{t.parcel[i], t.to[i], t.begin[i]}; });
    std::size_t next = 0;
    for (std::uint32_t parcel = 0; parcel < facts.parcels(); ++parcel) {
        const std::size_t first = next;
        while (next < order.size() && t.parcel[order[next]] == parcel) ++next;
        Delivery{facts, parcel, Transfers{order}.subspan(first, next - first)}.check();
    }
}

void check_rounds(const Facts& facts) {
    const auto& t = facts.t.transfers;
    std::uint64_t rounds = 0;
    std::vector<std::array<std::uint32_t, 3>> sent, received;
    for (std::size_t i = 0; i < t.parcel.size(); ++i) {
        if (t.from[i] == storage_host) {
            if (t.round[i] != 0) throw failure("transfer {}: read from storage, but of round {}", i, t.round[i]);
            continue;
        }
        const std::uint64_t with_this = std::uint64_t{t.round[i]} + 1;
        if (with_this != rounds && with_this != rounds + 1)
            throw failure("transfer {}: of round {}, after {} rounds", i, t.round[i], rounds);
        rounds = with_this;
        sent.push_back({t.round[i], t.from[i], t.to[i]});
        received.push_back({t.round[i], t.to[i], t.from[i]});
    }
    if (rounds != facts.t.rounds) throw failure("rounds: {} are stored, {} counted", facts.t.rounds, rounds);
    const std::uint64_t fewest =
        std::max(check_partners(sent, facts, "sends to"), check_partners(received, facts, "receives from"));
    if (rounds != fewest) throw failure("rounds: {}, no host takes part in more than {}", rounds, fewest);
}

}  // namespace tpx
