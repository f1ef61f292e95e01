// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/relocation.hpp"
#include "tests/unit/change/random_parcels.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace tpx::testing {

using Hosts = std::set<std::uint32_t>;

/// A relocation, and direct implementations of what the headers say about it.
class RelocationCase {
public:
    RelocationCase(const Instance& made, StateMedium in, bool pinned, std::uint64_t window = default_window)
        : instance{made},
          state{in},
          placement{place(made.parcels, made.hosts, made.rank_locations, pinned)},
          relocation{relocate(made.parcels, made.hosts, made.rank_locations, placement, in, true, window)} {}

    std::size_t host_count() const { return instance.hosts.size(); }
    std::uint32_t host_of(std::int32_t rank) const {
        const auto block = std::ranges::find_if(placement.blocks, [&](const Block& b) { return rank < b.end; });
        return block->host;
    }
    const RankLocation* location(std::int32_t old) const {
        const RankLocation& it = instance.rank_locations[old];
        return it.host < 0 || instance.hosts[it.host].lost ? nullptr : &it;
    }
    Hosts holders(const Parcel& parcel) const {
        Hosts hosts;
        for (std::int32_t old : instance.parcels.holders[parcel.holders]) {
            if (location(old) != nullptr) hosts.insert(location(old)->host);
        }
        return hosts;
    }
    Hosts needers(const Parcel& parcel) const {
        Hosts hosts;
        for (std::int32_t rank : instance.parcels.needers[parcel.needers]) hosts.insert(host_of(rank));
        return hosts;
    }
    Hosts missing(const Parcel& parcel) const {
        Hosts hosts = needers(parcel);
        for (std::uint32_t held : holders(parcel)) hosts.erase(held);
        return hosts;
    }
    /// A host with an unknown switch shares it with no other host.
    std::string group(std::uint32_t host) const {
        const std::string& known = instance.hosts[host].switch_group;
        return known.empty() ? instance.hosts[host].name : known;
    }
    /// Whether a host reads a parcel just for sending.
    bool is_reader(const Parcel& parcel, std::uint32_t host) const {
        return state == StateMedium::stores && !needers(parcel).contains(host);
    }
    double nic(std::size_t host) const { return instance.hosts[host].nic.value_or(default_rates.nic); }
    double disk(std::size_t host) const { return instance.hosts[host].disk_read.value_or(default_rates.disk_read); }

    const Instance& instance;
    StateMedium state;
    Placement placement;
    Relocation relocation;
};

}  // namespace tpx::testing
