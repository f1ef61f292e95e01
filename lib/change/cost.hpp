// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/hosts.hpp"
#include "lib/change/load.hpp"
#include "lib/change/placement.hpp"
#include "lib/change/relocation.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tpx {

/// One resource's share of a change: how long the host that takes longest is busy with it.
struct ResourceBound {
    std::string_view
        resource;  ///< "disk read", "disk write", "NIC in", "NIC out", "memory", "device copy" or "device link"
    double seconds = 0;
    std::uint32_t host = 0;   ///< the host it takes longest on; the lowest of several
    std::uint64_t bytes = 0;  ///< on that host
    double rate = 0;  ///< bytes per second on that host; memory: one core for each device; device link: all devices
                      ///< together. 0: unknown, and no default is assumed
    bool assumed = false;  ///< the rate is one of `default_rates`: nobody gave it
    bool counts = true;    ///< toward the time: host memory only if state is in hosts, devices only if in devices
};

/// The time of a change in which all stages overlap. It is an estimate if rates are assumed. The work that hosts with
/// known rates cannot avoid gives a lower bound, which holds for every choice of senders and every division of what is
/// read from shared storage.
struct Prediction {
    std::array<ResourceBound, 7> resources;  ///< of all hosts
    std::array<ResourceBound, 7> bounds;     ///< of hosts whose rates are known, if the others are infinitely fast and
                                             ///< do as much as they can; 0 seconds: no bound is known
    std::size_t binding = 0;                 ///< the resource that takes longest; the first of several
    std::size_t binding_bound = 0;           ///< the bound that is longest

    double seconds() const { return resources[binding].seconds; }
    double bound_seconds() const { return bounds[binding_bound].seconds; }
    bool is_bound() const {
        return !resources[binding].assumed && bounds[binding].seconds >= resources[binding].seconds;
    }
};

/// Where the bytes of ranks are that hosts copy.
enum class RankMemory : std::uint8_t {
    host,   ///< each rank copies with a core of its own
    device  ///< devices copy; the memory of hosts decides nothing
};

/// The time of each resource for what each host does: max over hosts of bytes / rate.
Prediction predict(std::span<const Host> hosts, std::span<const Load> loads, RankMemory memory = RankMemory::host);

/// The time of a relocation.
Prediction predict(std::span<const Host> hosts, const Relocation& relocation, RankMemory memory);

/// What hosts do when the change goes through shared storage: `read` and `written` bytes divided over the hosts in
/// proportion to their disk rates, which is the division that is done first. Each byte written is copied once.
std::vector<Load> storage_loads(std::span<const Host> hosts, std::uint64_t read, std::uint64_t written);

/// The time of storage_loads(). There is no bound if the rate of any host is unknown: it could do all of the work.
Prediction predict_storage(std::span<const Host> hosts, std::uint64_t read, std::uint64_t written);

/// What hosts do when each reads all that its ranks need from shared storage, each byte once.
std::vector<Load> reading_loads(const Parcels& parcels, const Placement& placement, std::span<const Host> hosts);

}  // namespace tpx
