// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan_hosts.hpp"

#include "cmd/cli.hpp"
#include "formats/plan/host_names.hpp"
#include "formats/plan/hosts_file.hpp"
#include "formats/plan/rank_map.hpp"
#include "lib/core/file.hpp"
#include "lib/core/units.hpp"

#include <algorithm>

namespace tpx::cli {
namespace {

void mark(std::vector<Host>& hosts, const std::string& names, const char* option, bool Host::*mark) {
    for (const std::string& name : formats::expand_host_names(names)) {
        const auto host = std::ranges::find(hosts, name, &Host::name);
        if (host == hosts.end()) {
            std::vector<std::string> known;
            for (const Host& each : hosts) known.push_back(each.name);
            throw Error{Exit::usage, "{}: no host is called '{}'{}", option, name, did_you_mean(name, known)};
        }
        (*host).*mark = true;
    }
}

double given_rate(const std::string& text, const char* option) {
    try {
        return parse_rate(text);
    } catch (const Error& error) {
        throw Error{Exit::usage, "{}: {}", option, error.what()};
    }
}

void set_rates(std::vector<Host>& hosts, const PlanOptions& options) {
    const std::size_t comma = options.disk.find(',');
    const std::string read = options.disk.substr(0, comma);
    const std::string write = comma == options.disk.npos ? "" : options.disk.substr(comma + 1);
    for (Host& host : hosts) {
        if (!options.nic.empty()) host.nic = given_rate(options.nic, "--nic");
        if (!options.disk.empty()) host.disk_read = host.disk_write = given_rate(read, "--disk");
        if (!write.empty()) host.disk_write = given_rate(write, "--disk");
        if (options.gpu_memory) host.device_memory = static_cast<double>(*options.gpu_memory);
    }
}

}  // namespace

std::vector<Host> given_hosts(const PlanOptions& options, int ranks) {
    std::vector<Host> known;
    if (!options.hardware.empty()) known = formats::read_hosts(options.hardware);
    std::vector<Host> hosts = !options.hosts.empty() ? formats::read_hosts(options.hosts)
                              : !known.empty()       ? known
                                                     : uniform_hosts(1, ranks);
    fill_rates(hosts, known);
    set_rates(hosts, options);
    mark(hosts, options.lost, "--lost", &Host::lost);
    mark(hosts, options.spare, "--spare", &Host::spare);
    for (const Host& host : hosts) {
        if (host.lost && host.spare)
            throw Error{Exit::usage, "host '{}' cannot be lost and spare at the same time", host.name};
    }
    if (std::ranges::all_of(hosts, &Host::lost)) throw Error{Exit::usage, "all {} hosts are lost", hosts.size()};
    return hosts;
}

std::vector<Seat> given_seats(const PlanOptions& options, const std::vector<Host>& hosts, int ranks) {
    constexpr std::uint64_t longest_map = std::uint64_t{64} << 20;
    if (options.ranks_on.empty()) return formats::seats_in_order(hosts, ranks);
    return formats::parse_rank_map(read_file(options.ranks_on, longest_map), options.ranks_on, hosts, ranks);
}

void check_device_memory(const std::vector<Host>& hosts, const Placement& placement,
                         const std::vector<std::uint64_t>& needed) {
    for (const Block& block : placement.blocks) {
        const Host& host = hosts[block.host];
        if (!host.device_memory) continue;
        for (std::int32_t rank = block.begin; rank < block.end; ++rank) {
            const auto bytes = static_cast<double>(needed[rank]);
            if (bytes > *host.device_memory)
                throw MemoryError{needed[rank], "rank {} needs {}, a device of host '{}' holds {}",
                                  rank,         format_bytes(bytes),
                                  host.name,    format_bytes(*host.device_memory)};
        }
    }
}

}  // namespace tpx::cli
