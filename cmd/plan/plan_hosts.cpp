// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/plan_hosts.hpp"

#include "cmd/cli/cli.hpp"
#include "formats/files/plan/host_names.hpp"
#include "formats/files/plan/hosts_file.hpp"
#include "formats/files/plan/rank_map.hpp"
#include "lib/core/file.hpp"
#include "lib/core/nearest.hpp"
#include "lib/core/units.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

namespace tpx::cli {
namespace {

Host& host_called(std::vector<Host>& hosts, std::string_view name, const char* option) {
    const auto host = std::ranges::find(hosts, name, &Host::name);
    if (host != hosts.end()) return *host;
    std::vector<std::string> known;
    for (const Host& each : hosts) known.push_back(each.name);
    throw Error{Exit::usage, "{}: no host is called '{}'{}", option, name, did_you_mean(std::string{name}, known)};
}

void lose_device(Host& host, std::string_view text) {
    int device = -1;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), device);
    if (code != std::errc{} || end != text.data() + text.size() || device < 0 || device >= host.gpus)
        throw Error{Exit::usage, "--lost: '{}:{}' is not a device; host '{}' has devices 0 to {}",
                    host.name,   text,
                    host.name,   host.gpus - 1};
    if (host.lost) throw usage_error("--lost: names host '{}' and its device {}; name one of them", host.name, device);
    const auto at = std::ranges::lower_bound(host.lost_devices, device);
    if (at == host.lost_devices.end() || *at != device) host.lost_devices.insert(at, device);
}

void lose_host(Host& host) {
    if (!host.lost_devices.empty())
        throw usage_error("--lost: names host '{}' and its device {}; name one of them", host.name,
                          host.lost_devices.front());
    host.lost = true;
}

// "n3" loses a host, "n3:2" its device 2.
void mark_lost(std::vector<Host>& hosts, const std::string& names) {
    for (const std::string& name : distinct_names(names, "--lost")) {
        const std::size_t colon = name.rfind(':');
        if (colon == name.npos || std::ranges::find(hosts, name, &Host::name) != hosts.end())
            lose_host(host_called(hosts, name, "--lost"));
        else
            lose_device(host_called(hosts, name.substr(0, colon), "--lost"), std::string_view{name}.substr(colon + 1));
    }
}

void mark_spare(std::vector<Host>& hosts, const std::string& names) {
    for (const std::string& name : distinct_names(names, "--spare")) host_called(hosts, name, "--spare").spare = true;
}

void set_iterations(std::vector<Host>& hosts, const PlanOptions& options) {
    const std::optional<std::uint64_t> iteration = unsigned_of(options.iteration);
    for (Host& host : hosts) {
        if (!host.iteration) host.iteration = iteration;
    }
}

void set_rates(std::vector<Host>& hosts, const PlanOptions& options) {
    for (Host& host : hosts) {
        if (options.nic) host.nic = *options.nic;
        if (options.disk.read) host.disk_read = *options.disk.read;
        if (options.disk.write) host.disk_write = *options.disk.write;
        if (options.gpu_memory) host.device_memory = static_cast<double>(*options.gpu_memory);
    }
}

// State in the memory of a lost device is lost; state in the store of its host is not.
void leave_lost_devices(std::vector<RankLocation>& rank_locations, const std::vector<Host>& hosts, StateMedium state) {
    const std::vector<std::int32_t> firsts = first_devices(hosts);
    for (RankLocation& location : rank_locations) {
        if (location.host < 0 || location.device < 0 ||
            !is_lost(hosts[location.host], location.device - firsts[location.host]))
            continue;
        location = state == StateMedium::stores ? RankLocation{location.host, -1} : RankLocation{};
    }
}

}  // namespace

std::vector<std::string> distinct_names(const std::string& list, const char* option) {
    std::vector<std::string> names = formats::expand_host_names(list);
    std::set<std::string_view> seen;
    for (const std::string& name : names)
        if (!seen.insert(name).second) throw usage_error("{}: names '{}' twice", option, name);
    return names;
}

std::vector<Host> hosts_from_options(const PlanOptions& options, int ranks) {
    std::vector<Host> known;
    if (!options.hardware.empty()) known = formats::read_hosts(options.hardware);
    std::vector<Host> hosts = !options.hosts.empty() ? formats::read_hosts(options.hosts)
                              : !known.empty()       ? known
                                                     : uniform_hosts(1, ranks);
    fill_rates(hosts, known);
    return apply_host_options(std::move(hosts), options);
}

std::vector<Host> apply_host_options(std::vector<Host> hosts, const PlanOptions& options) {
    set_rates(hosts, options);
    set_iterations(hosts, options);
    mark_lost(hosts, options.lost);
    mark_spare(hosts, options.spare);
    for (const Host& host : hosts) {
        if (host.lost && host.spare)
            throw Error{Exit::usage, "host '{}' cannot be lost and spare at the same time", host.name};
    }
    if (std::ranges::all_of(hosts, &Host::lost))
        throw Error{Exit::usage, "{}",
                    hosts.size() == 1 ? "the only host is lost" : fmt::format("all {} hosts are lost", hosts.size())};
    return hosts;
}

std::vector<RankLocation> locations_from_options(const PlanOptions& options, const std::vector<Host>& hosts, int ranks,
                                                 StateMedium state) {
    constexpr std::uint64_t longest_map = std::uint64_t{64} << 20;
    std::vector<RankLocation> rank_locations =
        options.ranks_on.empty()
            ? formats::rank_locations_in_order(hosts, ranks)
            : formats::parse_rank_map(read_file(options.ranks_on, longest_map), options.ranks_on, hosts, ranks);
    leave_lost_devices(rank_locations, hosts, state);
    return rank_locations;
}

void check_device_memory(const std::vector<Host>& hosts, const Placement& placement,
                         const std::vector<std::uint64_t>& needed) {
    for (const Block& block : placement.blocks) {
        const Host& host = hosts[block.host];
        if (!host.device_memory) continue;
        for (std::int32_t rank = block.begin; rank < block.end; ++rank) {
            const auto bytes = static_cast<double>(needed[rank]);
            if (bytes > *host.device_memory)
                throw MemoryError{needed[rank], "rank {} needs {}, but a device of host '{}' has {}",
                                  rank,         format_bytes(bytes),
                                  host.name,    format_bytes(*host.device_memory)};
        }
    }
}

}  // namespace tpx::cli
