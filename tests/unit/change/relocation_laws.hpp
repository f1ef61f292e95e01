// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/unit/change/relocation_case.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace tpx::testing {

/// Checks that the transfers of each parcel into each host tile it, originate from holders, and enter each group once.
inline void check_transfers(const RelocationCase& it) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Transfer>> into;
    for (const Transfer& transfer : it.relocation.transfers) into[{transfer.parcel, transfer.to}].push_back(transfer);
    for (std::uint32_t p = 0; p < it.instance.parcels.parcels.size(); ++p) {
        const Parcel& parcel = it.instance.parcels.parcels[p];
        const Hosts holders = it.holders(parcel);
        for (std::uint32_t host : it.missing(parcel)) {
            std::vector<Transfer>& tiles = into[{p, host}];
            std::ranges::sort(tiles, {}, &Transfer::begin);
            std::uint64_t end = 0;
            for (const Transfer& tile : tiles) {
                REQUIRE(tile.begin == end);
                REQUIRE(tile.end > tile.begin);
                REQUIRE((tile.from == from_storage) == holders.empty());
                end = tile.end;
            }
            REQUIRE(end == parcel.bytes);
        }
        if (holders.empty()) continue;
        for (std::uint64_t byte = 0; byte < parcel.bytes; ++byte) {
            std::map<std::uint32_t, std::uint32_t> from;
            std::map<std::string, int> entries;
            for (std::uint32_t host : it.missing(parcel)) {
                const auto tile =
                    std::ranges::find_if(into[{p, host}], [&](const Transfer& t) { return byte < t.end; });
                from[host] = tile->from;
                entries[it.group(host)] += it.group(host) != it.group(tile->from);
            }
            for (const auto& [name, count] : entries) {
                const bool held = std::ranges::any_of(holders, [&](auto host) { return it.group(host) == name; });
                REQUIRE(count == (held ? 0 : 1));
            }
            for (std::uint32_t host : it.missing(parcel)) {
                std::size_t steps = 0;
                while (!holders.contains(host) && steps++ <= from.size()) host = from.at(host);
                REQUIRE(holders.contains(host));
            }
        }
    }
    for (const auto& [key, tiles] : into) {
        if (!tiles.empty()) REQUIRE(it.missing(it.instance.parcels.parcels[key.first]).contains(key.second));
    }
}

/// Checks that the ranks at both ends of transfers are on their hosts, receivers need the bytes, and senders hold or
/// have received them.
inline void check_ranks(const RelocationCase& it) {
    std::map<std::pair<std::uint32_t, std::int32_t>, std::vector<Transfer>> received;  // by parcel and rank
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::int32_t> receivers;         // by parcel and host
    for (const Transfer& transfer : it.relocation.transfers) {
        const Parcel& parcel = it.instance.parcels.parcels[transfer.parcel];
        const auto needers = it.instance.parcels.needers[parcel.needers];
        REQUIRE(std::ranges::find(needers, transfer.to_rank) != needers.end());
        REQUIRE(it.host_of(transfer.to_rank) == transfer.to);
        const auto receiver = receivers.try_emplace({transfer.parcel, transfer.to}, transfer.to_rank).first;
        REQUIRE(receiver->second == transfer.to_rank);
        if (transfer.from == from_storage) {
            REQUIRE(transfer.from_rank == -1);
        } else if (transfer.forwards) {
            REQUIRE(it.host_of(transfer.from_rank) == transfer.from);
            std::uint64_t bytes = 0;
            for (const Transfer& before : received[{transfer.parcel, transfer.from_rank}]) {
                if (before.round < transfer.round && before.begin < transfer.end && transfer.begin < before.end)
                    bytes += std::min(before.end, transfer.end) - std::max(before.begin, transfer.begin);
            }
            REQUIRE(bytes == transfer.end - transfer.begin);
        } else {
            const auto holders = it.instance.parcels.holders[parcel.holders];
            REQUIRE(std::ranges::find(holders, transfer.from_rank) != holders.end());
            REQUIRE(it.location(transfer.from_rank) != nullptr);
            REQUIRE(it.location(transfer.from_rank)->host == static_cast<std::int32_t>(transfer.from));
        }
        received[{transfer.parcel, transfer.to_rank}].push_back(transfer);
    }
}

/// Checks that in each round a host sends to at most one host and receives from at most one. If nothing is forwarded
/// and bytes can be split anywhere, one host is busy in all rounds.
inline void check_rounds(const RelocationCase& it) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> sends;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> receives;
    std::map<std::uint32_t, Hosts> sending;
    std::map<std::uint32_t, Hosts> receiving;
    std::uint32_t rounds = 0;
    bool forwards = false;
    for (const Transfer& transfer : it.relocation.transfers) {
        if (transfer.from == from_storage) continue;
        REQUIRE((transfer.round == rounds || transfer.round + 1 == rounds));
        rounds = transfer.round + 1;
        REQUIRE(sends.try_emplace({transfer.from, transfer.round}, transfer.to).first->second == transfer.to);
        REQUIRE(receives.try_emplace({transfer.to, transfer.round}, transfer.from).first->second == transfer.from);
        sending[transfer.from].insert(transfer.round);
        receiving[transfer.to].insert(transfer.round);
        forwards |= !it.holders(it.instance.parcels.parcels[transfer.parcel]).contains(transfer.from);
    }
    REQUIRE(rounds == it.relocation.rounds);
    std::size_t busiest = 0;
    for (const auto& side : {sending, receiving}) {
        for (const auto& [host, own] : side) busiest = std::max(busiest, own.size());
    }
    const bool is_divisible =
        std::ranges::all_of(it.instance.parcels.parcels, [](const Parcel& p) { return p.element == 1; });
    if (!forwards && is_divisible) REQUIRE(busiest == it.relocation.rounds);
}

/// Checks byte by byte that a host forwards only whole elements that it received in earlier rounds, and buffers at most
/// the window.
inline void check_order(const RelocationCase& it) {
    using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>;  // host, parcel, element
    std::map<Key, std::uint32_t> arrival;
    std::map<Key, std::uint32_t> departure;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> kept;  // host, round
    const auto elements = [&](const Transfer& transfer, auto&& visit) {
        const std::uint32_t size = it.instance.parcels.parcels[transfer.parcel].element;
        REQUIRE(transfer.begin % size == 0);
        REQUIRE(transfer.end % size == 0);
        for (std::uint64_t i = transfer.begin; i < transfer.end; i += size) visit(i);
    };
    for (const Transfer& transfer : it.relocation.transfers) {
        if (transfer.from == from_storage) continue;
        kept[{transfer.to, transfer.round}] += transfer.end - transfer.begin;
        elements(transfer, [&](std::uint64_t i) { arrival[{transfer.to, transfer.parcel, i}] = transfer.round; });
    }
    for (const Transfer& transfer : it.relocation.transfers) {
        if (transfer.from == from_storage) continue;
        const bool held = it.holders(it.instance.parcels.parcels[transfer.parcel]).contains(transfer.from);
        REQUIRE(transfer.forwards == !held);
        if (held) kept[{transfer.from, transfer.round}] += transfer.end - transfer.begin;
        if (held) continue;
        elements(transfer, [&](std::uint64_t i) {
            const Key key{transfer.from, transfer.parcel, i};
            REQUIRE(arrival.at(key) < transfer.round);
            departure[key] = std::max(departure[key], transfer.round);
        });
    }
    for (const auto& [key, last] : departure) {
        for (std::uint32_t round = arrival[key] + 1; round <= last; ++round)
            kept[{std::get<0>(key), round}] += it.instance.parcels.parcels[std::get<1>(key)].element;
    }
    std::vector<std::uint64_t> most(it.host_count());
    for (const auto& [at, bytes] : kept) most[at.first] = std::max(most[at.first], bytes);
    REQUIRE(it.relocation.staging == most);
    for (std::uint64_t bytes : most) REQUIRE(bytes <= it.relocation.window);
}

/// Checks bytes and loads with a count by rank and by transfer.
inline void check_counts(const RelocationCase& it) {
    std::vector<BytesBySource> roles(it.instance.parcels.roles.size());
    std::vector<Load> loads(it.host_count());
    std::map<std::int32_t, std::uint64_t> copied;  // inside the device of each new rank
    for (const Parcel& parcel : it.instance.parcels.parcels) {
        const Hosts holders = it.holders(parcel);
        const Hosts missing = it.missing(parcel);
        Hosts first = missing;
        BytesBySource& role = roles[parcel.role];
        for (std::int32_t rank : it.instance.parcels.needers[parcel.needers]) {
            const std::uint32_t host = it.host_of(rank);
            const bool there = std::ranges::any_of(it.instance.parcels.holders[parcel.holders], [&](std::int32_t old) {
                return it.location(old) != nullptr && it.location(old)->device == it.placement.devices[rank];
            });
            const bool crosses = !there && first.erase(host) == 1;
            role.needed += parcel.bytes;
            if (there) (parcel.recut ? role.local : role.kept) += parcel.bytes;
            if (!there && !crosses) role.same_host += parcel.bytes;
            if (!there && !crosses) loads[host].device_link += parcel.bytes;
            if (there && parcel.recut) copied[rank] += parcel.bytes;
            if (crosses) (holders.empty() ? role.storage : role.other_host) += parcel.bytes;
            if (!crosses && (!there || parcel.recut)) loads[host].memory += parcel.bytes;
        }
        for (std::uint32_t host : it.needers(parcel)) {
            const bool stores = it.state == StateMedium::stores;
            if (holders.empty() || (stores && holders.contains(host))) loads[host].disk_read += parcel.bytes;
            if (stores) loads[host].disk_write += parcel.bytes;
        }
    }
    std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>> read;  // host, parcel, byte: each counts once
    for (const Transfer& transfer : it.relocation.transfers) {
        if (transfer.from == from_storage) continue;
        const std::uint64_t bytes = transfer.end - transfer.begin;
        loads[transfer.from].nic_out += bytes;
        loads[transfer.from].memory += bytes;
        loads[transfer.to].nic_in += bytes;
        loads[transfer.to].memory += bytes;
        const Hosts holders = it.holders(it.instance.parcels.parcels[transfer.parcel]);
        const Parcel& parcel = it.instance.parcels.parcels[transfer.parcel];
        if (holders.contains(transfer.from) && it.is_reader(parcel, transfer.from)) {
            for (std::uint64_t byte = transfer.begin; byte < transfer.end; ++byte)
                loads[transfer.from].disk_read += read.insert({transfer.from, transfer.parcel, byte}).second;
        }
    }
    for (const auto& [rank, bytes] : copied)
        loads[it.host_of(rank)].device_copy = std::max(loads[it.host_of(rank)].device_copy, bytes);
    BytesBySource total;
    for (const BytesBySource& role : roles) total += role;
    REQUIRE(it.relocation.roles == roles);
    REQUIRE(it.relocation.total == total);
    REQUIRE(it.relocation.bound == it.placement.crossing);
    REQUIRE(it.relocation.meets_bound());
    for (std::size_t h = 0; h < loads.size(); ++h) {
        const Load& load = it.relocation.hosts[h];
        REQUIRE(load.disk_read == loads[h].disk_read);
        REQUIRE(load.disk_write == loads[h].disk_write);
        REQUIRE(load.nic_in == loads[h].nic_in);
        REQUIRE(load.nic_out == loads[h].nic_out);
        REQUIRE(load.memory == loads[h].memory);
        REQUIRE(load.device_link == loads[h].device_link);
        REQUIRE(load.device_copy == loads[h].device_copy);
    }
}

}  // namespace tpx::testing
