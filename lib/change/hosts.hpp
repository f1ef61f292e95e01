// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tpx {

/// A machine that runs ranks. Rates are in bytes per second; a missing rate is taken from `default_rates`.
struct Host {
    std::string name;
    int gpus = 1;                         ///< the number of devices; each runs one rank
    std::optional<double> nic;            ///< in each direction
    std::optional<double> disk_read;      ///< of checkpoint storage, as this host sees it
    std::optional<double> disk_write;     ///< of checkpoint storage, as this host sees it
    std::optional<double> memory;         ///< bytes that one core copies per second
    std::optional<double> device_copy;    ///< bytes that a device copies per second inside its memory; no default
    std::optional<double> device_link;    ///< into each device from other devices of the host (NVLink); no default
    std::optional<double> device_memory;  ///< bytes that a device can hold; not given: no limit
    std::string device_type;              ///< such as "V100"; empty: unknown
    std::string switch_group;             ///< hosts of one group reach each other without an uplink; empty: unknown
    int rails = 1;  ///< number of NICs, whose rates add up to `nic`; device k sends through rail k mod rails
    std::optional<std::uint64_t> iteration;  ///< of the state that it holds; not given: unknown
    bool lost = false;                       ///< it no longer holds state and takes no rank
    bool spare = false;                      ///< it takes ranks only if the other hosts cannot take them all
    std::vector<int> lost_devices;  ///< devices of the host, ascending, that no longer hold state and take no rank
};

/// Whether device `device` of `host`, counted from 0, is lost: on its own or with the host.
bool is_lost(const Host& host, int device);

/// How many ranks `host` can take: its devices that are not lost.
int free_devices(const Host& host);

/// Rates that are assumed if they are unknown: a 200 Gbit/s NIC, one NVMe drive, one core that copies.
struct DefaultRates {
    double nic = 25e9;
    double disk_read = 5e9;
    double disk_write = 2e9;
    double memory = 10e9;
};
inline constexpr DefaultRates default_rates{};

/// Gives `hosts` the rates that they lack: those of the host with the same name in `known`, else those of its first
/// host.
void fill_rates(std::vector<Host>& hosts, std::span<const Host> known);

/// The first device of each host, and the number of all devices at the end. Devices are numbered across all hosts, in
/// order.
std::vector<std::int32_t> first_devices(std::span<const Host> hosts);

/// The number of the switch group of each host; a host whose group is unknown has a group of its own.
std::vector<std::uint32_t> switch_groups(std::span<const Host> hosts);

/// `count` equal hosts with `gpus` ranks each, named host0, host1, ... Throws Error (usage) unless both are positive.
std::vector<Host> uniform_hosts(int count, int gpus);

/// The host of each of `ranks` ranks, hosts filled in order: ranks 0 to gpus-1 are on the first. Throws Error (usage)
/// if the hosts have fewer devices than there are ranks.
std::vector<std::uint32_t> host_of_rank(std::span<const Host> hosts, int ranks);

}  // namespace tpx
