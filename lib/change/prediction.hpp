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

/// How long one resource is busy during a change, on the host where it takes longest.
struct ResourceBound {
    std::string_view
        resource;  ///< "disk read", "disk write", "NIC in", "NIC out", "memory", "device copy" or "device link"
    double seconds = 0;
    std::uint32_t host = 0;   ///< the host where it takes longest; the first of several
    std::uint64_t bytes = 0;  ///< on that host
    double rate = 0;          ///< bytes per second on that host; memory: one core per device; device link: all devices
                              ///< together. 0: unknown, without a default
    bool assumed = false;     ///< the rate is unknown and taken from `default_rates`
    bool counts = true;  ///< toward the time: host memory only for state on hosts, devices only for state on devices
};

/// The time of a change in which all stages overlap. It is an estimate if rates are assumed. The work that hosts with
/// known rates cannot avoid gives a lower bound, which holds for every choice of senders and every way to divide reads
/// from shared storage.
struct Prediction {
    std::array<ResourceBound, 7> resources;  ///< of all hosts
    std::array<ResourceBound, 7> bounds;     ///< of hosts with known rates, if the others are infinitely fast and do as
                                             ///< much as possible; 0 seconds: no bound is known
    std::size_t binding = 0;                 ///< the resource that takes longest; the first of several
    std::size_t binding_bound = 0;           ///< the longest bound

    double seconds() const { return resources[binding].seconds; }
    double bound_seconds() const { return bounds[binding_bound].seconds; }
    bool is_bound() const {
        return !resources[binding].assumed && bounds[binding].seconds >= resources[binding].seconds;
    }
};

/// Where the state of ranks is, which decides who copies it.
enum class RankMemory : std::uint8_t {
    host,   ///< a CPU core per rank copies
    device  ///< devices copy; host memory does not count
};

/// The time of each resource under `loads`: max over hosts of bytes / rate.
Prediction predict(std::span<const Host> hosts, std::span<const Load> loads, RankMemory memory = RankMemory::host);

/// The time of a relocation.
Prediction predict(std::span<const Host> hosts, const Relocation& relocation, RankMemory memory);

/// The loads of a change through shared storage: `read` and `written` bytes, divided among the hosts in proportion to
/// their disk rates, which is the fastest division. Each byte written is copied once.
std::vector<Load> storage_loads(std::span<const Host> hosts, std::uint64_t read, std::uint64_t written);

/// The time of storage_loads(). A resource has no bound if the rate of any host is unknown: that host could do all of
/// the work.
Prediction predict_storage(std::span<const Host> hosts, std::uint64_t read, std::uint64_t written);

/// The loads if each host reads everything that its ranks need from shared storage, each byte once.
std::vector<Load> reading_loads(const Parcels& parcels, const Placement& placement, std::span<const Host> hosts);

}  // namespace tpx
