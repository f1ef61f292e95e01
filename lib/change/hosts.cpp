// SPDX-License-Identifier: Apache-2.0
#include "lib/change/hosts.hpp"

#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <map>
#include <string_view>

namespace tpx {

std::vector<Host> uniform_hosts(int count, int gpus) {
    if (count <= 0 || gpus <= 0)
        throw Error{Exit::usage, "{} hosts with {} GPUs each: both must be positive", count, gpus};
    std::vector<Host> hosts(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
        hosts[i].name = fmt::format("host{}", i);
        hosts[i].gpus = gpus;
    }
    return hosts;
}

bool is_lost(const Host& host, int device) {
    return host.lost || std::ranges::binary_search(host.lost_devices, device);
}

int free_devices(const Host& host) { return host.lost ? 0 : host.gpus - static_cast<int>(host.lost_devices.size()); }

void fill_rates(std::vector<Host>& hosts, std::span<const Host> known) {
    if (known.empty()) return;
    for (Host& host : hosts) {
        const auto found = std::ranges::find(known, host.name, &Host::name);
        const Host& like = found == known.end() ? known.front() : *found;
        for (const auto rate :
             {&Host::nic, &Host::disk_read, &Host::disk_write, &Host::memory, &Host::device_copy, &Host::device_link})
            if (!(host.*rate)) host.*rate = like.*rate;
    }
}

std::vector<std::int32_t> first_devices(std::span<const Host> hosts) {
    std::vector<std::int32_t> firsts{0};
    for (const Host& host : hosts) firsts.push_back(firsts.back() + host.gpus);
    return firsts;
}

std::vector<std::uint32_t> switch_groups(std::span<const Host> hosts) {
    std::map<std::string_view, std::uint32_t> numbers;
    std::vector<std::uint32_t> group_of;
    std::uint32_t groups = 0;
    for (const Host& host : hosts) {
        const bool is_known = !host.switch_group.empty();
        const auto known = is_known ? numbers.find(host.switch_group) : numbers.end();
        group_of.push_back(known == numbers.end() ? groups++ : known->second);
        if (is_known) numbers.emplace(host.switch_group, group_of.back());
    }
    return group_of;
}

std::vector<std::uint32_t> host_of_rank(std::span<const Host> hosts, int ranks) {
    std::vector<std::uint32_t> host;
    const auto wanted = static_cast<std::size_t>(ranks);
    for (std::uint32_t i = 0; i < hosts.size() && host.size() < wanted; ++i) {
        for (int gpu = 0; gpu < hosts[i].gpus && host.size() < wanted; ++gpu) host.push_back(i);
    }
    if (host.size() < wanted)
        throw Error{Exit::usage, "{} do not fit on {} with {} in all", counted(wanted, "rank"),
                    counted(hosts.size(), "host"), counted(host.size(), "GPU")};
    return host;
}

}  // namespace tpx
