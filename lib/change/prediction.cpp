// SPDX-License-Identifier: Apache-2.0
#include "lib/change/prediction.hpp"

#include "lib/change/mapped_rank_sets.hpp"

#include <algorithm>
#include <cmath>

namespace tpx {
namespace {

struct Resource {
    std::string_view name;
    std::uint64_t Load::*bytes;
    std::optional<double> Host::*rate;
    double DefaultRates::*standard;  // null: no default
    bool each_device = false;        // the rate is that of one device, or of the core that copies for it

    double rate_of(const Host& host) const {
        const double one = (host.*rate).value_or(standard == nullptr ? 0 : default_rates.*standard);
        return one * (each_device ? std::max(free_devices(host), 1) : 1);
    }
    bool is_known(const Host& host) const { return (host.*rate).has_value(); }
};

constexpr std::array<Resource, 7> all_resources{
    Resource{"disk read", &Load::disk_read, &Host::disk_read, &DefaultRates::disk_read},
    Resource{"disk write", &Load::disk_write, &Host::disk_write, &DefaultRates::disk_write},
    Resource{"NIC in", &Load::nic_in, &Host::nic, &DefaultRates::nic},
    Resource{"NIC out", &Load::nic_out, &Host::nic, &DefaultRates::nic},
    Resource{"memory", &Load::memory, &Host::memory, &DefaultRates::memory, true},
    Resource{"device copy", &Load::device_copy, &Host::device_copy, nullptr},
    Resource{"device link", &Load::device_link, &Host::device_link, nullptr, true},
};

constexpr std::size_t disk_read_resource = 0, nic_out_resource = 3, memory_resource = 4;

// Whether the time of a resource counts if the state is in `memory`.
bool decides(const Resource& resource, RankMemory memory) {
    const bool in_device = resource.standard == nullptr;
    const bool in_host = resource.rate == &Host::memory;
    return memory == RankMemory::device ? !in_host : !in_device;
}

ResourceBound longest(const Resource& resource, std::span<const Host> hosts, std::span<const Load> loads,
                      bool only_known) {
    ResourceBound longest{resource.name};
    bool is_first = true;
    for (std::uint32_t i = 0; i < hosts.size() && i < loads.size(); ++i) {
        const bool known = resource.is_known(hosts[i]);
        if (only_known && !known) continue;
        const std::uint64_t bytes = loads[i].*resource.bytes;
        const double rate = resource.rate_of(hosts[i]);
        const double seconds = rate > 0 ? static_cast<double>(bytes) / rate : 0;
        if (is_first || seconds > longest.seconds)
            longest = {resource.name, seconds, i, bytes, rate, !known && rate > 0};
        is_first = false;
    }
    return longest;
}

std::array<ResourceBound, 7> all_longest(std::span<const Host> hosts, std::span<const Load> loads, bool only_known) {
    std::array<ResourceBound, 7> all;
    for (std::size_t i = 0; i < all_resources.size(); ++i) all[i] = longest(all_resources[i], hosts, loads, only_known);
    return all;
}

void find_binding(Prediction& prediction, RankMemory memory) {
    for (std::size_t i = 0; i < all_resources.size(); ++i)
        prediction.resources[i].counts = prediction.bounds[i].counts = decides(all_resources[i], memory);
    const auto index_of_longest = [&](const std::array<ResourceBound, 7>& all) {
        std::size_t found = 0;
        for (std::size_t i = 1; i < all.size(); ++i) {
            if (all[i].counts && all[i].seconds > all[found].seconds) found = i;
        }
        return found;
    };
    prediction.binding = index_of_longest(prediction.resources);
    prediction.binding_bound = index_of_longest(prediction.bounds);
}

// Divides `total` bytes among the hosts in proportion to their rates of `resource`; the parts add up exactly.
void divide(std::span<const Host> hosts, const Resource& resource, std::uint64_t total, std::vector<Load>& loads) {
    double rates = 0;
    for (const Host& host : hosts) rates += resource.rate_of(host);
    double so_far = 0;
    std::uint64_t given = 0;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
        so_far += resource.rate_of(hosts[i]);
        const auto share = static_cast<std::uint64_t>(std::llround(static_cast<double>(total) * (so_far / rates)));
        const std::uint64_t until = i + 1 == hosts.size() ? total : std::clamp(share, given, total);
        loads[i].*resource.bytes += until - given;
        given = until;
    }
}

}  // namespace

Prediction predict(std::span<const Host> hosts, std::span<const Load> loads, RankMemory memory) {
    Prediction prediction;
    prediction.resources = all_longest(hosts, loads, false);
    prediction.bounds = all_longest(hosts, loads, true);
    find_binding(prediction, memory);
    return prediction;
}

Prediction predict(std::span<const Host> hosts, const Relocation& relocation, RankMemory memory) {
    Prediction prediction = predict(hosts, relocation.hosts, memory);
    const std::array<ResourceBound, 7> unavoidable = all_longest(hosts, relocation.unavoidable, true);
    const SendingBound& sending = relocation.sending_by_known_rates;
    // Senders are chosen by NICs and disks. If the known rates alone give the same time, it does not depend on assumed
    // rates.
    const bool by_known_rates = sending.seconds >= relocation.sending.seconds * (1 - 1e-9);
    prediction.bounds[memory_resource] = unavoidable[memory_resource];
    if (!by_known_rates) {
        prediction.bounds = unavoidable;
        const std::size_t resource = sending.hosts.empty() ? disk_read_resource : nic_out_resource;
        ResourceBound& bound = prediction.bounds[resource];
        if (sending.seconds > bound.seconds) {
            const std::uint32_t host = sending.hosts.empty() ? sending.disks.front() : sending.hosts.front();
            const double rate = all_resources[resource].rate_of(hosts[host]);
            bound = {bound.resource, sending.seconds, host, static_cast<std::uint64_t>(sending.seconds * rate), rate};
        }
    }
    find_binding(prediction, memory);
    return prediction;
}

Prediction predict_storage(std::span<const Host> hosts, std::uint64_t read, std::uint64_t written) {
    Prediction prediction = predict(hosts, storage_loads(hosts, read, written));
    for (std::size_t i = 0; i < all_resources.size(); ++i) {
        const bool is_known =
            std::ranges::all_of(hosts, [&](const Host& host) { return all_resources[i].is_known(host); });
        if (!is_known) prediction.bounds[i] = ResourceBound{all_resources[i].name};
    }
    find_binding(prediction, RankMemory::host);
    return prediction;
}

std::vector<Load> storage_loads(std::span<const Host> hosts, std::uint64_t read, std::uint64_t written) {
    std::vector<Load> loads(hosts.size());
    divide(hosts, all_resources[0], read, loads);
    divide(hosts, all_resources[1], written, loads);
    for (Load& load : loads) load.memory = load.disk_write;
    return loads;
}

std::vector<Load> reading_loads(const Parcels& parcels, const Placement& placement, std::span<const Host> hosts) {
    std::vector<std::int32_t> host_of(static_cast<std::size_t>(parcels.new_ranks));
    for (const Block& block : placement.blocks)
        std::fill(host_of.begin() + block.begin, host_of.begin() + block.end, static_cast<std::int32_t>(block.host));
    const MappedRankSets needing = map_rank_sets(parcels.needers, host_of);
    std::vector<Load> loads(hosts.size());
    for (const Parcel& parcel : parcels.parcels) {
        for (std::int32_t host : needing[parcel.needers])
            loads[static_cast<std::size_t>(host)].disk_read += parcel.bytes;
        // One rank of each host receives the bytes directly, without a copy in memory.
        for (std::int32_t rank : parcels.needers[parcel.needers])
            loads[static_cast<std::size_t>(host_of[static_cast<std::size_t>(rank)])].memory += parcel.bytes;
        for (std::int32_t host : needing[parcel.needers]) loads[static_cast<std::size_t>(host)].memory -= parcel.bytes;
    }
    return loads;
}

}  // namespace tpx
