// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/plan/hosts.hpp"
#include "lib/plan/load.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tpx {

/// One resource's share of a change: no schedule is done sooner than `seconds`.
struct ResourceBound {
    std::string_view resource;  ///< "disk read", "disk write", "NIC in", "NIC out" or "memory"
    double seconds = 0;
    std::uint32_t host = 0;   ///< the host it takes longest on; the lowest of several
    std::uint64_t bytes = 0;  ///< on that host
    double rate = 0;          ///< bytes per second on that host
    bool assumed = false;     ///< the rate is one of `default_rates`: nobody gave it
};

/// The least time a change can take, when every stage overlaps every other.
struct Prediction {
    std::array<ResourceBound, 5> resources;
    std::size_t binding = 0;  ///< the resource that takes longest; the first of several

    double seconds() const { return resources[binding].seconds; }
};

/// The bound of each resource for what each host does: max over hosts of bytes / rate.
Prediction predict(std::span<const Host> hosts, std::span<const Load> loads);

/// What hosts do when the change goes through shared storage: `read` and `written` bytes divided over the hosts in
/// proportion to their disk rates, which is the division that is done first. Each byte written is copied once.
std::vector<Load> storage_loads(std::span<const Host> hosts, std::uint64_t read, std::uint64_t written);

}  // namespace tpx
