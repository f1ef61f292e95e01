// SPDX-License-Identifier: Apache-2.0
#include "lib/check/check_counts.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <array>

namespace tpx {
namespace {

struct Sums {
    std::uint64_t needed = 0, kept = 0, local = 0, same_host = 0, other_host = 0, storage = 0;
};

template <class Stored>
void compare(std::string_view what, const Stored& stored, const Sums& counted) {
    for (const auto& [name, a, b] :
         {std::tuple{"needed", stored.needed, counted.needed}, std::tuple{"kept", stored.kept, counted.kept},
          std::tuple{"local", stored.local, counted.local},
          std::tuple{"same_host", stored.same_host, counted.same_host},
          std::tuple{"other_host", stored.other_host, counted.other_host},
          std::tuple{"storage", stored.storage, counted.storage}}) {
        if (a != b) throw failure("{}: {} bytes {} are stored, {} counted", what, a, name, b);
    }
}

class Counting {
public:
    explicit Counting(const Facts& facts) : facts_{facts}, t_{facts.t}, roles_(t_.roles.name.size()) {
        loads_.resize(facts.hosts());
        ranks_on_.resize(static_cast<std::size_t>(facts.first_device.back()));
        for (std::size_t rank = 0; rank < facts.old_host.size(); ++rank) {
            if (facts.old_host[rank] >= 0 && t_.old_ranks.device[rank] >= 0)
                ranks_on_[t_.old_ranks.device[rank]].push_back(static_cast<std::int32_t>(rank));
        }
    }

    void run() {
        for (std::uint32_t parcel = 0; parcel < facts_.parcels(); ++parcel) count(parcel);
        Sums total;
        for (std::size_t r = 0; r < roles_.size(); ++r) {
            const auto& s = t_.roles;
            const Sums& c = roles_[r];
            compare("role '" + s.name[r] + "'",
                    Sums{s.needed[r], s.kept[r], s.local[r], s.same_host[r], s.other_host[r], s.storage[r]}, c);
            total = {total.needed + c.needed,         total.kept + c.kept,
                     total.local + c.local,           total.same_host + c.same_host,
                     total.other_host + c.other_host, total.storage + c.storage};
        }
        compare("all roles", t_.total, total);
        if (t_.bound != total.other_host + total.storage || t_.bound != t_.crossing)
            throw failure("bound: {} bytes are stored, {} must come into hosts", t_.bound,
                          total.other_host + total.storage);
        for (std::size_t i = 0; i < t_.transfers.parcel.size(); ++i) count_transfer(i);
        check_loads();
    }

private:
    /// What a host does. `memory` never becomes negative: only bytes that were added before are subtracted.
    struct HostWork {
        std::uint64_t disk_read = 0, disk_write = 0, nic_in = 0, nic_out = 0, memory = 0;
    };

    void count(std::uint32_t parcel);
    void count_hosts(std::uint32_t parcel);
    void count_transfer(std::size_t transfer);
    void check_loads() const;
    bool device_holds(std::uint32_t parcel, std::int32_t rank) const;

    const Facts& facts_;
    const HostTables& t_;
    std::vector<Sums> roles_;
    std::vector<HostWork> loads_;
    std::vector<std::vector<std::int32_t>> ranks_on_;  // old ranks by device
};

bool Counting::device_holds(std::uint32_t parcel, std::int32_t rank) const {
    const auto holders = facts_.holders(parcel);
    return std::ranges::any_of(ranks_on_[t_.new_devices[rank]],
                               [&](std::int32_t old) { return std::ranges::binary_search(holders, old); });
}

void Counting::count(std::uint32_t parcel) {
    const std::uint64_t bytes = t_.parcels.bytes[parcel];
    Sums& role = roles_[t_.parcels.role[parcel]];
    const auto holding = facts_.holding(parcel);
    for (std::int32_t rank : facts_.needers(parcel)) {
        role.needed += bytes;
        const bool there = device_holds(parcel, rank);
        const bool recut = t_.parcels.recut[parcel] != 0;
        (!there ? role.same_host : recut ? role.local : role.kept) += bytes;
        if (!there || recut) loads_[facts_.new_host[rank]].memory += bytes;
    }
    count_hosts(parcel);
    // In each host that lacks the parcel, one rank brings it in for all.
    const std::uint64_t missing = facts_.missing(parcel).size() * bytes;
    role.same_host -= missing;
    (holding.empty() ? role.storage : role.other_host) += missing;
}

// What hosts read and write for themselves. In a host that lacks a parcel, one rank gets it without a copy inside the
// host.
void Counting::count_hosts(std::uint32_t parcel) {
    const std::uint64_t bytes = t_.parcels.bytes[parcel];
    const auto holding = facts_.holding(parcel);
    const bool stores = t_.state == "stores";
    for (std::int32_t host : facts_.needing(parcel)) {
        const bool held = std::ranges::binary_search(holding, host);
        if (!held) loads_[host].memory -= bytes;
        if (held ? stores : holding.empty()) loads_[host].disk_read += bytes;
        if (stores) loads_[host].disk_write += bytes;
    }
}

void Counting::count_transfer(std::size_t transfer) {
    const auto& t = t_.transfers;
    if (t.from[transfer] == storage_host) return;
    const std::uint64_t bytes = t.end[transfer] - t.begin[transfer];
    HostWork& from = loads_[t.from[transfer]];
    from.nic_out += bytes;
    from.memory += bytes;
    loads_[t.to[transfer]].nic_in += bytes;
    loads_[t.to[transfer]].memory += bytes;
    // The host reads what it needs itself in any case; see count_hosts().
    const auto needing = facts_.needing(t.parcel[transfer]);
    if (t_.state == "stores" && !t.forwards[transfer] &&
        !std::ranges::binary_search(needing, static_cast<std::int32_t>(t.from[transfer])))
        from.disk_read += bytes;
}

void Counting::check_loads() const {
    for (std::uint32_t host = 0; host < facts_.hosts(); ++host) {
        const HostWork& load = loads_[host];
        const auto& stored = t_.loads;
        for (const auto& [name, a, b] : {std::tuple{"disk_read", stored.disk_read[host], load.disk_read},
                                         std::tuple{"disk_write", stored.disk_write[host], load.disk_write},
                                         std::tuple{"nic_in", stored.nic_in[host], load.nic_in},
                                         std::tuple{"nic_out", stored.nic_out[host], load.nic_out},
                                         std::tuple{"memory", stored.memory[host], load.memory}}) {
            if (a != b)
                throw failure("host '{}': {} of {} bytes is stored, {} counted", t_.hosts.name[host], name, a, b);
        }
    }
}

}  // namespace

void check_counts(const Facts& facts) { Counting{facts}.run(); }

}  // namespace tpx
