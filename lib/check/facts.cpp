// SPDX-License-Identifier: Apache-2.0
#include "lib/check/facts.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <map>
#include <string>

namespace tpx {
namespace {

// The hosts of each set of ranks.
ListColumn hosts_of(const ListColumn& sets, std::span<const std::int32_t> host) {
    ListColumn hosts{{0}, {}};
    std::vector<std::int32_t> some;
    for (std::size_t k = 0; k + 1 < sets.begin.size(); ++k) {
        some.clear();
        for (std::int32_t rank : Facts::list(sets, k)) {
            if (host[rank] >= 0) some.push_back(host[rank]);
        }
        std::ranges::sort(some);
        const auto end = std::ranges::unique(some).begin();
        hosts.values.insert(hosts.values.end(), some.begin(), end);
        hosts.begin.push_back(hosts.values.size());
    }
    return hosts;
}

}  // namespace

Facts::Facts(const HostTables& tables) : t{tables} {
    first_device.push_back(0);
    for (std::uint32_t gpus : t.hosts.gpus) first_device.push_back(first_device.back() + gpus);
    for (std::size_t host = 0; host < t.hosts.gpus.size(); ++host)
        is_lost.insert(is_lost.end(), t.hosts.gpus[host], t.hosts.lost[host] != 0);
    for (std::uint32_t device : t.lost_devices) is_lost[device] = true;
    for (std::size_t host = 0; host < t.hosts.gpus.size(); ++host) {
        const auto begin = is_lost.begin() + first_device[host];
        devices.push_back(
            static_cast<std::uint32_t>(std::count(begin, is_lost.begin() + first_device[host + 1], false)));
    }
    for (std::size_t rank = 0; rank < t.old_ranks.host.size(); ++rank) {
        const std::int32_t host = t.old_ranks.host[rank];
        const std::int32_t device = t.old_ranks.device[rank];
        if (device < -1 ||
            (device >= 0 && (host < 0 || device < first_device[host] || device >= first_device[host + 1])))
            throw failure("old rank {}: device {} is not of host {}", rank, device, host);
        const bool lost = (host >= 0 && t.hosts.lost[host]) || (device >= 0 && is_lost[device]);
        old_host.push_back(lost ? -1 : host);
    }
    for (std::size_t rank = 0; rank < t.new_devices.size(); ++rank) {
        const std::int32_t device = t.new_devices[rank];
        if (device < 0 || device >= first_device.back())
            throw failure("new rank {}: device {} does not exist; there are {} devices", rank, device,
                          first_device.back());
        if (is_lost[device]) throw failure("new rank {}: device {} is lost", rank, device);
        const auto above = std::ranges::upper_bound(first_device, std::int64_t{device});
        new_host.push_back(static_cast<std::int32_t>(above - first_device.begin() - 1));
    }
    holding_hosts = hosts_of(t.holders, old_host);
    needing_hosts = hosts_of(t.needers, new_host);
}

std::vector<std::uint32_t> Facts::switch_groups() const {
    std::map<std::string, std::uint32_t> first;
    std::vector<std::uint32_t> groups;
    for (std::uint32_t host = 0; host < hosts(); ++host) {
        const std::string& name = t.hosts.switch_group[host];
        groups.push_back(name.empty() ? host : first.emplace(name, host).first->second);
    }
    return groups;
}

std::vector<std::int32_t> Facts::missing(std::uint32_t parcel) const {
    std::vector<std::int32_t> hosts;
    std::ranges::set_difference(needing(parcel), holding(parcel), std::back_inserter(hosts));
    return hosts;
}

}  // namespace tpx
