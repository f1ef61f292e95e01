// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tpx {

/// A machine that runs ranks. Rates are in bytes per second; one that is not given is taken from `default_rates`.
struct Host {
    std::string name;
    int gpus = 1;                         ///< how many ranks it runs
    std::optional<double> nic;            ///< each direction
    std::optional<double> disk_read;      ///< of checkpoint storage, as this host sees it
    std::optional<double> disk_write;     ///< of checkpoint storage, as this host sees it
    std::optional<double> memory;         ///< bytes that one core copies per second
    std::optional<double> device_copy;    ///< bytes that a device copies per second inside its memory; no default
    std::optional<double> device_link;    ///< of each device, from other devices of the host (NVLink); no default
    std::optional<double> device_memory;  ///< bytes that a device can hold; not given: enough
    std::string device_type;              ///< such as "V100"; empty: not known
    std::string switch_group;             ///< hosts of one group reach each other without an uplink; empty: not known
    int rails = 1;                        ///< NICs that `nic` is the sum of: device k sends through rail k mod rails
    std::optional<std::uint64_t> iteration;  ///< of the state that it holds; not given: unknown
    bool lost = false;                       ///< it holds nothing any more and takes no rank
    bool spare = false;                      ///< it takes ranks only when the other hosts cannot take them all
    std::vector<int> lost_devices;           ///< of the host, ascending: they hold nothing any more and take no rank
};

/// Whether device `device` of `host`, counted from 0, is lost: on its own or with the host.
bool is_lost(const Host& host, int device);

/// How many ranks `host` can take: its devices that are not lost.
int free_devices(const Host& host);

/// What a rate is assumed to be when nobody said: a 200 Gbit/s NIC, one NVMe drive, one copying core.
struct DefaultRates {
    double nic = 25e9;
    double disk_read = 5e9;
    double disk_write = 2e9;
    double memory = 10e9;
};
inline constexpr DefaultRates default_rates{};

/// Gives `hosts` the rates that they lack: those of the host of the same name in `known`, else of the first one there.
void fill_rates(std::vector<Host>& hosts, std::span<const Host> known);

/// The devices of all hosts are numbered in order: those of host h from the h-th of these numbers up to the next, which
/// is there for the last host too.
std::vector<std::int32_t> first_devices(std::span<const Host> hosts);

/// The number of the switch group of each host; a host whose group is not known is the only one of its own.
std::vector<std::uint32_t> switch_groups(std::span<const Host> hosts);

/// `count` equal hosts with `gpus` ranks each, named host0, host1, ... Throws Error (usage) unless both are positive.
std::vector<Host> uniform_hosts(int count, int gpus);

/// The host of each of `ranks` ranks, hosts filled in order: ranks 0 up to gpus-1 are on the first. Throws Error
/// (usage) when the hosts have fewer places than there are ranks.
std::vector<std::uint32_t> host_of_rank(std::span<const Host> hosts, int ranks);

}  // namespace tpx
