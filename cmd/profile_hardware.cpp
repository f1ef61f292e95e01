// SPDX-License-Identifier: Apache-2.0
#include "cmd/output.hpp"
#include "cmd/profile.hpp"
#include "cmd/ranks.hpp"
#include "formats/plan/hosts_file.hpp"
#include "formats/profile/hardware_file.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/measure.hpp"
#include "lib/model/hardware.hpp"

#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <sstream>

namespace tpx::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t largest_file = std::uint64_t{2} << 30;

// The hosts that the ranks are on, in the order of their first ranks.
struct Places {
    std::vector<std::string> names;
    std::vector<int> first;  // rank of each host
    std::vector<int> count;  // ranks on each host
};

Places find_places(const mpi::Comm& comm) {
    std::array<char, 256> name{};
    gethostname(name.data(), name.size() - 1);
    std::string all;
    for (const std::string& each : mpi::gather(comm, name.data())) all += each + "\n";
    mpi::broadcast(comm, all);
    Places places;
    std::istringstream lines{all};
    int rank = 0;
    for (std::string line; std::getline(lines, line); ++rank) {
        const auto known = std::ranges::find(places.names, line);
        if (known != places.names.end()) {
            ++places.count[known - places.names.begin()];
            continue;
        }
        places.names.push_back(line);
        places.first.push_back(rank);
        places.count.push_back(1);
    }
    return places;
}

// The rates of one host, as text that travels.
std::string text_of(const std::vector<Measured>& rates) {
    std::string text;
    for (const Measured& rate : rates) text += fmt::format("{} {} ", rate.median, rate.spread);
    return text;
}

MeasuredRate next_rate(std::istringstream& words) {
    MeasuredRate rate;
    words >> rate.rate >> rate.spread;
    return rate;
}

const Measured& faster(const Measured& a, const Measured& b) { return a.median >= b.median ? a : b; }

// Runs `body` where `chosen`; all ranks wait asleep for those that do, and fail together.
void on_some_ranks(const mpi::Comm& comm, bool chosen, const std::function<void()>& body) {
    std::exception_ptr fault;
    try {
        if (chosen) body();
    } catch (...) {
        fault = std::current_exception();
    }
    wait_quietly(comm);
    mpi::all_or_none(comm, [&] {
        if (fault) std::rethrow_exception(fault);
    });
}

// Memory and disk of each host, one host after another, and then the disks all at once.
std::vector<std::string> measure_hosts(const mpi::Comm& comm, const Places& places, const std::string& folder,
                                       double seconds) {
    const auto mine = std::ranges::find(places.first, comm.rank());
    const double hosts = static_cast<double>(places.first.size());
    Measured memory;
    DiskRates alone, together;
    for (std::size_t turn = 0; turn < places.first.size(); ++turn)
        on_some_ranks(comm, mine == places.first.begin() + static_cast<std::ptrdiff_t>(turn), [&] {
            memory = measure_memory_copy(0.1 * seconds / hosts);
            alone = measure_disk(folder, 0.6 * seconds / hosts, largest_file);
        });
    together = alone;
    if (places.first.size() > 1)
        on_some_ranks(comm, mine != places.first.end(),
                      [&] { together = measure_disk(folder, 0.3 * seconds, largest_file); });
    return mpi::gather(comm, mine == places.first.end()
                                 ? ""
                                 : text_of({memory, faster(alone.direct_read, alone.buffered_read),
                                            faster(alone.direct_write, alone.buffered_write),
                                            faster(together.direct_read, together.buffered_read),
                                            faster(together.direct_write, together.buffered_write)}));
}

Hardware assemble(const Places& places, const std::vector<std::string>& texts, const std::vector<LinkRates>& links) {
    Hardware hardware;
    const std::size_t count = places.names.size();
    for (std::size_t i = 0; i < count; ++i) {
        std::istringstream words{texts[places.first[i]]};
        HostHardware host;
        host.name = places.names[i];
        host.gpus = places.count[i];
        host.memory = next_rate(words);
        host.disk_read = next_rate(words);
        host.disk_write = next_rate(words);
        host.shared_read = next_rate(words);
        host.shared_write = next_rate(words);
        hardware.hosts.push_back(host);
    }
    hardware.links.assign(count, std::vector<MeasuredRate>(count));
    hardware.latency.assign(count, std::vector<double>(count));
    const auto index = [&](int rank) { return std::ranges::find(places.first, rank) - places.first.begin(); };
    for (const LinkRates& link : links) {
        hardware.links[index(link.from)][index(link.to)] = {link.rate.median, link.rate.spread};
        hardware.latency[index(link.from)][index(link.to)] = link.latency.median;
    }
    find_nics(hardware);
    return hardware;
}

void print_links(const Hardware& hardware, Output& out) {
    constexpr std::array<const char*, 5> shades{"░", "▒", "▓", "█", "█"};
    double most = 0;
    for (const auto& row : hardware.links)
        for (const MeasuredRate& link : row) most = std::max(most, link.rate);
    out.result("\nlinks, from row to column; full is {}\n", format_rate(most));
    for (std::size_t a = 0; a < hardware.hosts.size(); ++a) {
        std::string line;
        for (std::size_t b = 0; b < hardware.hosts.size(); ++b)
            line += a == b ? " ·"
                           : fmt::format(
                                 " {}",
                                 shades[std::min<std::size_t>(4, std::size_t(4 * hardware.links[a][b].rate / most))]);
        out.result("{:<16}{}\n", hardware.hosts[a].name, line);
    }
    for (const SlowLink& slow : slow_links(hardware))
        out.result("slow: {} to {} has {}, its ends can {}\n", hardware.hosts[slow.from].name,
                   hardware.hosts[slow.to].name, format_rate(hardware.links[slow.from][slow.to].rate),
                   format_rate(slow.expected));
}

void print_text(const Hardware& hardware, const std::vector<int>& classes, Output& out) {
    const auto rate = [](const MeasuredRate& measured) { return measured.rate > 0 ? format_rate(measured.rate) : "-"; };
    out.result("{:<16} {:>5} {:>5} {:>11} {:>11} {:>11} {:>11}\n", "host", "class", "ranks", "memory", "disk read",
               "disk write", "NIC");
    for (std::size_t i = 0; i < hardware.hosts.size(); ++i) {
        const HostHardware& host = hardware.hosts[i];
        out.result("{:<16} {:>5} {:>5} {:>11} {:>11} {:>11} {:>11}\n", host.name, classes[i], host.gpus,
                   rate(host.memory), rate(host.disk_read), rate(host.disk_write), rate(host.nic));
    }
    if (hardware.hosts.size() > 1) print_links(hardware, out);
}

ordered_json to_json(const Hardware& hardware, const std::vector<int>& classes) {
    const auto rate = [](const MeasuredRate& measured) {
        return ordered_json{{"rate", measured.rate}, {"spread", measured.spread}};
    };
    ordered_json hosts = ordered_json::array(), links = ordered_json::array();
    for (std::size_t i = 0; i < hardware.hosts.size(); ++i) {
        const HostHardware& host = hardware.hosts[i];
        hosts.push_back({{"name", host.name},
                         {"class", classes[i]},
                         {"ranks", host.gpus},
                         {"memory", rate(host.memory)},
                         {"disk_read", rate(host.disk_read)},
                         {"disk_write", rate(host.disk_write)},
                         {"disk_read_together", rate(host.shared_read)},
                         {"disk_write_together", rate(host.shared_write)},
                         {"nic", rate(host.nic)}});
        for (std::size_t to = 0; to < hardware.hosts.size(); ++to)
            if (to != i)
                links.push_back({{"from", host.name},
                                 {"to", hardware.hosts[to].name},
                                 {"rate", hardware.links[i][to].rate},
                                 {"spread", hardware.links[i][to].spread},
                                 {"latency", hardware.latency[i][to]}});
    }
    return {{"hosts", hosts}, {"links", links}};
}

Exit report(const ProfileHardwareOptions& options, Hardware hardware, Output& out) {
    for (const std::string& line : noisy(hardware)) out.note("{}", line);
    std::vector<Degraded> slower;
    if (!options.compare.empty()) slower = degraded(formats::read_hosts(options.compare), hardware);
    const std::vector<int> classes = merge_classes(hardware);
    if (!options.output.empty()) write_text(options.output, formats::hardware_text(hardware));
    if (out.json()) {
        ordered_json json = to_json(hardware, classes);
        json["degraded"] = ordered_json::array();
        for (const Degraded& each : slower)
            json["degraded"].push_back(
                {{"host", each.host}, {"what", each.what}, {"before", each.before}, {"now", each.now}});
        out.object("tpx.profile.hardware/1", json);
    } else {
        print_text(hardware, classes, out);
        for (const Degraded& each : slower)
            out.result("slower: {}: {} has {}, had {}\n", each.host, each.what, format_rate(each.now),
                       format_rate(each.before));
    }
    return slower.empty() ? Exit::success : Exit::no;
}

}  // namespace

void run_profile_hardware(const ProfileHardwareOptions& options, Output& out) {
    const double seconds = whole_number(options.seconds, "--seconds", 20, 1, 3600);
    in_ranks([&](const mpi::Comm& comm) {
        const Places places = find_places(comm);
        out.note("{} hosts, {} ranks; this takes about {} s", places.names.size(), comm.size(), seconds);
        const std::string folder = options.folder.empty() ? "." : options.folder;
        const std::vector<std::string> texts = measure_hosts(comm, places, folder, 0.5 * seconds);
        const std::vector<LinkRates> links = measure_links(comm, places.first, 0.5 * seconds);
        std::uint64_t exit = 0;
        mpi::all_or_none(comm, [&] {
            if (comm.rank() == 0)
                exit = static_cast<std::uint64_t>(report(options, assemble(places, texts, links), out));
        });
        mpi::all_max(comm, std::span{&exit, 1});
        return static_cast<Exit>(exit);
    });
}

}  // namespace tpx::cli
