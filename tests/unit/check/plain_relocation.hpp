// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/plan/relocation.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace tpx::testing {

/// A right, if not good, relocation: the first host that holds a parcel sends it to all that lack it, as many as fit in
/// a round. Its sending bound is left out.
inline Relocation plain_relocation(const Parcels& parcels, std::span<const Host> hosts, std::span<const Seat> seats,
                                   const Placement& placement) {
    Relocation made;
    made.roles.resize(parcels.roles.size());
    made.hosts.resize(hosts.size());
    std::vector<std::int32_t> host_of_device;
    for (std::size_t h = 0; h < hosts.size(); ++h)
        host_of_device.insert(host_of_device.end(), static_cast<std::size_t>(hosts[h].gpus), static_cast<int>(h));
    for (std::uint32_t p = 0; p < parcels.parcels.size(); ++p) {
        const Parcel& parcel = parcels.parcels[p];
        std::set<std::int32_t> holding, devices;
        for (std::int32_t rank : parcels.holders[parcel.holders]) {
            if (seats[rank].host < 0 || hosts[seats[rank].host].lost) continue;
            holding.insert(seats[rank].host);
            devices.insert(seats[rank].device);
        }
        std::set<std::int32_t> served = holding;
        for (std::int32_t rank : parcels.needers[parcel.needers]) {
            const std::int32_t device = placement.devices[rank];
            const std::int32_t host = host_of_device[device];
            Bytes& bytes = made.roles[parcel.role];
            bytes.needed += parcel.bytes;
            if (devices.contains(device)) {
                (parcel.recut ? bytes.local : bytes.kept) += parcel.bytes;
            } else if (!served.insert(host).second) {
                bytes.same_host += parcel.bytes;
            } else {
                (holding.empty() ? bytes.storage : bytes.other_host) += parcel.bytes;
                made.transfers.push_back({p,
                                          holding.empty() ? from_storage : static_cast<std::uint32_t>(*holding.begin()),
                                          static_cast<std::uint32_t>(host), 0, parcel.bytes, 0});
            }
        }
    }
    for (const Bytes& role : made.roles) made.total += role;
    made.bound = made.total.other_host + made.total.storage;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> rounds;
    std::vector<std::set<std::uint32_t>> busy_out(hosts.size()), busy_in(hosts.size());
    for (Transfer& transfer : made.transfers) {
        made.hosts[transfer.to].nic_in += transfer.from == from_storage ? 0 : transfer.end;
        if (transfer.from == from_storage) continue;
        made.hosts[transfer.from].nic_out += transfer.end;
        const auto [known, fresh] = rounds.emplace(std::pair{transfer.from, transfer.to}, 0);
        while (fresh &&
               (busy_out[transfer.from].contains(known->second) || busy_in[transfer.to].contains(known->second)))
            ++known->second;
        transfer.round = known->second;
        busy_out[transfer.from].insert(transfer.round);
        busy_in[transfer.to].insert(transfer.round);
        made.rounds = std::max(made.rounds, transfer.round + 1);
    }
    std::ranges::stable_sort(made.transfers, {}, &Transfer::round);
    return made;
}

}  // namespace tpx::testing
