// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/cost.hpp"

#include <algorithm>
#include <cmath>

namespace tpx {
namespace {

struct Resource {
    std::string_view name;
    std::uint64_t Load::*bytes;
    std::optional<double> Host::*rate;
    double DefaultRates::*standard;

    double rate_of(const Host& host) const { return (host.*rate).value_or(default_rates.*standard); }
};

constexpr std::array<Resource, 5> all_resources{
    Resource{"disk read", &Load::disk_read, &Host::disk_read, &DefaultRates::disk_read},
    Resource{"disk write", &Load::disk_write, &Host::disk_write, &DefaultRates::disk_write},
    Resource{"NIC in", &Load::nic_in, &Host::nic, &DefaultRates::nic},
    Resource{"NIC out", &Load::nic_out, &Host::nic, &DefaultRates::nic},
    Resource{"memory", &Load::memory, &Host::memory, &DefaultRates::memory},
};

ResourceBound bound_of(const Resource& resource, std::span<const Host> hosts, std::span<const Load> loads) {
    ResourceBound bound{resource.name};
    for (std::uint32_t i = 0; i < hosts.size() && i < loads.size(); ++i) {
        const std::uint64_t bytes = loads[i].*resource.bytes;
        const double rate = resource.rate_of(hosts[i]);
        const double seconds = static_cast<double>(bytes) / rate;
        if (i == 0 || seconds > bound.seconds)
            bound = {resource.name, seconds, i, bytes, rate, !(hosts[i].*resource.rate)};
    }
    return bound;
}

// Divides `total` over the hosts in proportion to `resource`'s rate, to the byte.
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

Prediction predict(std::span<const Host> hosts, std::span<const Load> loads) {
    Prediction prediction;
    for (std::size_t i = 0; i < all_resources.size(); ++i)
        prediction.resources[i] = bound_of(all_resources[i], hosts, loads);
    const auto longest = std::ranges::max_element(prediction.resources, {}, &ResourceBound::seconds);
    prediction.binding = static_cast<std::size_t>(longest - prediction.resources.begin());
    return prediction;
}

std::vector<Load> storage_loads(std::span<const Host> hosts, std::uint64_t read, std::uint64_t written) {
    std::vector<Load> loads(hosts.size());
    divide(hosts, all_resources[0], read, loads);
    divide(hosts, all_resources[1], written, loads);
    for (Load& load : loads) load.memory = load.disk_write;
    return loads;
}

}  // namespace tpx
