// SPDX-License-Identifier: Apache-2.0
#include "lib/change/rank_locations.hpp"

#include "lib/core/error.hpp"

namespace tpx {
namespace {

/// Whether neither the host nor the device of the location is lost. State in the store of a host survives the loss of
/// its devices.
bool holds_state(std::span<const Host> hosts, std::span<const std::int32_t> firsts, const RankLocation& location) {
    if (location.host < 0 || hosts[location.host].lost) return false;
    return location.device < 0 || !is_lost(hosts[location.host], location.device - firsts[location.host]);
}

}  // namespace

std::vector<std::int32_t> old_rank_hosts(std::span<const Host> hosts, std::span<const RankLocation> rank_locations,
                                         int old_ranks) {
    if (std::ssize(rank_locations) != old_ranks)
        throw Error{Exit::usage, "{} old ranks, but seats for {}", old_ranks, rank_locations.size()};
    const std::vector<std::int32_t> firsts = first_devices(hosts);
    std::vector<std::int32_t> on;
    for (const RankLocation& location : rank_locations) {
        if (location.host >= std::ssize(hosts))
            throw Error{Exit::usage, "old rank {} is on host {} of {}", on.size(), location.host, hosts.size()};
        if (location.host >= 0 && location.device >= 0 &&
            (location.device < firsts[location.host] || location.device >= firsts[location.host + 1]))
            throw Error{Exit::usage, "old rank {} is on device {}, which does not belong to host '{}'", on.size(),
                        location.device, hosts[location.host].name};
        on.push_back(holds_state(hosts, firsts, location) ? location.host : -1);
    }
    return on;
}

std::vector<std::int32_t> old_rank_devices(std::span<const Host> hosts, std::span<const RankLocation> rank_locations) {
    std::vector<std::int32_t> on;
    const std::vector<std::int32_t> firsts = first_devices(hosts);
    for (const RankLocation& location : rank_locations)
        on.push_back(holds_state(hosts, firsts, location) ? location.device : -1);
    return on;
}

}  // namespace tpx
