// SPDX-License-Identifier: Apache-2.0
#include "lib/check/check_transfers.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace tpx {
namespace {

using TransferNumbers = std::span<const std::uint32_t>;

/// The bytes that each host keeps in memory for transfers in each round: bytes that it receives, bytes that it holds
/// and sends, and bytes that it received earlier and has yet to forward.
class Staging {
public:
    explicit Staging(std::size_t hosts) : changes_(hosts) {}

    /// `host` keeps `bytes` in the rounds from `begin` up to `end`.
    void add(std::uint32_t host, std::uint32_t begin, std::uint32_t end, std::uint64_t bytes) {
        changes_[host].push_back({begin, bytes, true});
        changes_[host].push_back({end, bytes, false});
    }

    /// The most that `host` keeps in a round.
    std::uint64_t most(std::uint32_t host) {
        std::vector<StagedBytes>& changes = changes_[host];
        std::ranges::sort(changes, {}, [](const StagedBytes& it) {
            return std::pair{it.round, it.more};
        });  // decreases first
        std::uint64_t now = 0, most = 0;
        for (const StagedBytes& change : changes) {
            change.more ? now += change.bytes : now -= change.bytes;
            most = std::max(most, now);
        }
        return most;
    }

private:
    struct StagedBytes {
        std::uint32_t round;
        std::uint64_t bytes;
        bool more;
    };
    std::vector<std::vector<StagedBytes>> changes_;
};

/// The transfers of one parcel, by receiving host and first byte.
class Delivery {
public:
    Delivery(const Facts& facts, const std::vector<std::uint32_t>& groups, std::uint32_t parcel,
             TransferNumbers transfers)
        : facts_{facts}, groups_{groups}, t_{facts.t.transfers}, parcel_{parcel}, transfers_{transfers} {}

    void check() const {
        const std::vector<std::int32_t> missing = facts_.missing(parcel_);
        TransferNumbers left = transfers_;
        for (std::int32_t host : missing) left = left.subspan(check_tiles(host, left));
        if (!left.empty())
            throw failure("parcel {}: transfer {} goes to host '{}', which needs none of it", parcel_, left.front(),
                          name(t_.to[left.front()]));
        check_groups(missing);
        if (!t_.to_rank.empty()) check_receivers();
        const std::uint64_t element = facts_.t.parcels.element[parcel_];
        for (std::uint32_t transfer : transfers_) {
            if (t_.begin[transfer] % element != 0 || t_.end[transfer] % element != 0)
                throw failure("parcel {}: transfer {} ends inside an element of {} bytes", parcel_, transfer, element);
            if ((t_.forwards[transfer] != 0) == holds_source(transfer))
                throw failure("parcel {}: transfer {} has the wrong value of forwards", parcel_, transfer);
            if (t_.forwards[transfer]) check_forward(transfer, missing);
            if (!t_.to_rank.empty()) check_ranks(transfer);
        }
    }

    /// Adds to `staging` what hosts keep because they forward it later.
    void count_waiting(Staging& staging) const;

private:
    const std::string& name(std::uint32_t host) const { return facts_.t.hosts.name[host]; }

    /// How many of `transfers` go to `host`. Throws unless these bring all bytes once, in order.
    std::size_t check_tiles(std::int32_t host, TransferNumbers transfers) const {
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

    /// Whether a transfer comes from where the bytes were originally.
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
    TransferNumbers into(std::uint32_t host, std::uint64_t begin, std::uint64_t end) const;
    void check_forward(std::uint32_t transfer, std::span<const std::int32_t> missing) const;
    void check_receivers() const;
    void check_ranks(std::uint32_t transfer) const;

    const Facts& facts_;
    const std::vector<std::uint32_t>& groups_;  // switch group of each host
    const decltype(HostTables::transfers)& t_;
    std::uint32_t parcel_;
    TransferNumbers transfers_;
};

/// Checks that nothing enters a switch group that has holders, and that each byte enters any other receiving group
/// once.
void Delivery::check_groups(std::span<const std::int32_t> missing) const {
    const std::vector<std::uint32_t>& group = groups_;
    std::set<std::uint32_t> held;
    for (std::int32_t host : facts_.holding(parcel_)) held.insert(group[host]);
    if (held.empty()) return;
    std::map<std::uint32_t, std::uint64_t> entered;
    for (std::int32_t host : missing) {
        if (!held.contains(group[host])) entered[group[host]] = 0;
    }
    for (std::uint32_t transfer : transfers_) {
        const std::uint32_t to = group[t_.to[transfer]];
        if (t_.from[transfer] == storage_host || group[t_.from[transfer]] == to) continue;
        if (held.contains(to))
            throw failure("parcel {}: transfer {} comes from outside the receiver's switch group '{}'", parcel_,
                          transfer, facts_.t.hosts.switch_group[t_.to[transfer]]);
        entered[to] += t_.end[transfer] - t_.begin[transfer];
    }
    for (const auto& [number, bytes] : entered) {
        if (bytes != facts_.t.parcels.bytes[parcel_])
            throw failure("parcel {}: {} bytes come into the switch group of host '{}', of {}", parcel_, bytes,
                          name(number), facts_.t.parcels.bytes[parcel_]);
    }
}

/// The transfers that bring the bytes from `begin` up to `end` to `host`, which is sent all bytes once.
TransferNumbers Delivery::into(std::uint32_t host, std::uint64_t begin, std::uint64_t end) const {
    const auto first = std::ranges::upper_bound(transfers_, std::pair{host, begin}, {}, [&](std::uint32_t transfer) {
        return std::pair{t_.to[transfer], t_.end[transfer]};
    });
    const auto last = std::ranges::lower_bound(transfers_, std::pair{host, end}, {}, [&](std::uint32_t transfer) {
        return std::pair{t_.to[transfer], t_.begin[transfer]};
    });
    return {first, last};
}

/// Checks that a host receives all bytes of a forwarding transfer in earlier rounds. Then following a byte back leads
/// to lower and lower rounds and finally to a holder, and hosts that process the rounds in order never deadlock.
void Delivery::check_forward(std::uint32_t transfer, std::span<const std::int32_t> missing) const {
    const std::uint32_t from = t_.from[transfer];
    if (!std::ranges::binary_search(missing, static_cast<std::int32_t>(from)))
        throw failure("parcel {}: transfer {} comes from host '{}', which never has it", parcel_, transfer, name(from));
    for (std::uint32_t before : into(from, t_.begin[transfer], t_.end[transfer])) {
        if (t_.round[before] >= t_.round[transfer])
            throw failure("parcel {}: host '{}' forwards bytes {} to {} in round {}, but has them after round {}",
                          parcel_, name(from), std::max(t_.begin[before], t_.begin[transfer]),
                          std::min(t_.end[before], t_.end[transfer]), t_.round[transfer], t_.round[before]);
    }
}

/// Checks that all bytes go to one rank of each host, from which its other ranks copy them.
void Delivery::check_receivers() const {
    for (std::size_t i = 1; i < transfers_.size(); ++i) {
        const std::uint32_t before = transfers_[i - 1], transfer = transfers_[i];
        if (t_.to[before] == t_.to[transfer] && t_.to_rank[before] != t_.to_rank[transfer])
            throw failure("parcel {}: transfers {} and {} go to new ranks {} and {} of host '{}', not to one", parcel_,
                          before, transfer, t_.to_rank[before], t_.to_rank[transfer], name(t_.to[transfer]));
    }
}

/// Checks that a transfer goes from a rank of its sender that has all its bytes to a rank of its receiver that needs
/// them.
void Delivery::check_ranks(std::uint32_t transfer) const {
    const auto is_on = [&](std::int32_t rank, std::span<const std::int32_t> ranks,
                           const std::vector<std::int32_t>& hosts, std::uint32_t host) {
        return std::ranges::binary_search(ranks, rank) && hosts[rank] == static_cast<std::int32_t>(host);
    };
    const std::uint32_t from = t_.from[transfer];
    const std::int32_t from_rank = t_.from_rank[transfer];
    const std::int32_t to_rank = t_.to_rank[transfer];
    if (!is_on(to_rank, facts_.needers(parcel_), facts_.new_host, t_.to[transfer]))
        throw failure("parcel {}: transfer {} goes to new rank {}, which is not on host '{}' or needs none of it",
                      parcel_, transfer, to_rank, name(t_.to[transfer]));
    if (from == storage_host) {
        if (from_rank != -1)
            throw failure("parcel {}: transfer {} reads from storage, but has from_rank {} instead of -1", parcel_,
                          transfer, from_rank);
    } else if (!t_.forwards[transfer]) {
        if (!is_on(from_rank, facts_.holders(parcel_), facts_.old_host, from))
            throw failure(
                "parcel {}: transfer {} comes from old rank {}, which is not on host '{}' or holds none of it", parcel_,
                transfer, from_rank, name(from));
    } else {
        for (std::uint32_t before : into(from, t_.begin[transfer], t_.end[transfer])) {
            if (t_.to_rank[before] != from_rank)
                throw failure("parcel {}: transfer {} comes from new rank {}, but transfer {} brought bytes to rank {}",
                              parcel_, transfer, from_rank, before, t_.to_rank[before]);
        }
    }
}

void Delivery::count_waiting(Staging& staging) const {
    // Finds the last round in which each host forwards the bytes of each transfer into it; all bytes between two
    // neighboring ends have the same last round.
    std::map<std::uint32_t, std::vector<std::uint32_t>> forwards;  // by sender
    for (std::uint32_t transfer : transfers_) {
        if (t_.forwards[transfer]) forwards[t_.from[transfer]].push_back(transfer);
    }
    for (auto& [host, own] : forwards) {
        std::vector<std::uint64_t> ends;
        for (std::uint32_t transfer : own) ends.insert(ends.end(), {t_.begin[transfer], t_.end[transfer]});
        for (std::uint32_t transfer : into(host, 0, facts_.t.parcels.bytes[parcel_]))
            ends.push_back(t_.begin[transfer]);
        std::ranges::sort(ends);
        ends.erase(std::ranges::unique(ends).begin(), ends.end());
        std::vector<std::uint32_t> last(ends.size(), 0);
        std::vector<bool> is_sent(ends.size(), false);
        for (std::uint32_t transfer : own) {
            auto i = static_cast<std::size_t>(std::ranges::lower_bound(ends, t_.begin[transfer]) - ends.begin());
            for (; ends[i] < t_.end[transfer]; ++i) {
                last[i] = std::max(last[i], t_.round[transfer]);
                is_sent[i] = true;
            }
        }
        for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
            if (is_sent[i])
                staging.add(host, t_.round[into(host, ends[i], ends[i + 1]).front()] + 1, last[i] + 1,
                            ends[i + 1] - ends[i]);
        }
    }
}

/// Adds the bytes that hosts receive, and those that they hold and send.
void count_in_flight(const Facts& facts, Staging& staging) {
    const auto& t = facts.t.transfers;
    for (std::size_t i = 0; i < t.parcel.size(); ++i) {
        if (t.from[i] == storage_host) continue;
        const std::uint64_t bytes = t.end[i] - t.begin[i];
        staging.add(t.to[i], t.round[i], t.round[i] + 1, bytes);
        if (!t.forwards[i]) staging.add(t.from[i], t.round[i], t.round[i] + 1, bytes);
    }
}

void check_staging(const Facts& facts, Staging& staging) {
    for (std::uint32_t host = 0; host < facts.hosts(); ++host) {
        const std::uint64_t most = staging.most(host);
        if (most != facts.t.loads.staging[host])
            throw failure("host '{}': {} bytes of staging are stored, {} counted", facts.t.hosts.name[host],
                          facts.t.loads.staging[host], most);
        if (most > facts.t.window)
            throw failure("host '{}': keeps {} bytes in a round, more than the window of {}", facts.t.hosts.name[host],
                          most, facts.t.window);
    }
}

}  // namespace

void check_transfers(const Facts& facts) {
    const auto& t = facts.t.transfers;
    std::vector<std::uint32_t> order(t.parcel.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::sort(order, {}, [&](std::uint32_t i) { return std::tuple{t.parcel[i], t.to[i], t.begin[i]}; });
    const std::vector<std::uint32_t> groups = facts.switch_groups();
    Staging staging{facts.hosts()};
    std::size_t next = 0;
    for (std::uint32_t parcel = 0; parcel < facts.parcels(); ++parcel) {
        const std::size_t first = next;
        while (next < order.size() && t.parcel[order[next]] == parcel) ++next;
        const Delivery delivery{facts, groups, parcel, TransferNumbers{order}.subspan(first, next - first)};
        delivery.check();
        delivery.count_waiting(staging);
    }
    count_in_flight(facts, staging);
    check_staging(facts, staging);
}

}  // namespace tpx
