// SPDX-License-Identifier: Apache-2.0
#include "cmd/output/output.hpp"
#include "cmd/profile/profile_hardware.hpp"
#include "formats/files/plan/host_names.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/units.hpp"

#include <algorithm>

namespace tpx::cli {
namespace {

constexpr std::size_t most_lines = 48;
constexpr std::size_t name_width = 16;

std::string rate_of(double rate) { return rate > 0 ? format_rate(rate) : "-"; }

// `text` in a column, cut where it is too long.
std::string column(std::string text) {
    if (text.size() > name_width) text = text.substr(0, name_width - 3) + "...";
    return fmt::format("{:<{}}", text, name_width);
}

void print_hosts(const Hardware& hardware, Output& out) {
    const std::vector<int> classes = classes_of(hardware);
    const std::vector<Host> report = hosts_for_planning(hardware, classes);
    out.result("{} {:>5} {:>5} {:>7} {:>4} {:>10} {:>10} {:>10} {:>10}\n", column("hosts"), "count", "ranks", "sockets",
               "GPUs", "memory", "disk read", "disk write", "NIC");
    for (int kind = 0; kind <= (classes.empty() ? -1 : std::ranges::max(classes)); ++kind) {
        std::vector<std::string> names;
        for (std::size_t i = 0; i < classes.size(); ++i)
            if (classes[i] == kind) names.push_back(hardware.hosts[i].name);
        const auto first = static_cast<std::size_t>(std::ranges::find(classes, kind) - classes.begin());
        const HostHardware& host = hardware.hosts[first];
        const Host& rates = report[first];
        out.result("{} {:>5} {:>5} {:>7} {:>4} {:>10} {:>10} {:>10} {:>10}\n", column(formats::fold_host_names(names)),
                   names.size(), host.ranks, host.sockets > 0 ? fmt::format("{}", host.sockets) : "-", host.gpus.size(),
                   rate_of(rates.memory.value_or(0)), rate_of(rates.disk_read.value_or(0)),
                   rate_of(rates.disk_write.value_or(0)), rate_of(rates.nic.value_or(0)));
    }
}

void print_pairs(const Hardware& hardware, Output& out) {
    const std::vector<PairSummary> classes = pair_classes(hardware);
    if (classes.empty()) return;
    out.result("\n{} {:>5} {:>10} {:>10} {:>10}\n", column("pairs of ranks"), "count", "latency", "rate", "slowest");
    for (const PairSummary& summary : classes)
        out.result("{} {:>5} {:>10} {:>10} {:>10}\n",
                   column(std::string{pair_class_names[static_cast<std::size_t>(summary.kind)]}), summary.pairs,
                   summary.typical.latency.median > 0 ? format_seconds(summary.typical.latency.median) : "-",
                   rate_of(summary.typical.rate.median), rate_of(summary.slowest));
}

// The slowest first, and of many only these.
void print_slow_links(const Hardware& hardware, Output& out) {
    constexpr std::size_t most_shown = 8;
    const auto rate = [&](const SlowLink& slow) { return hardware.links[slow.from][slow.to].rate.median; };
    std::vector<SlowLink> slow = slow_links(hardware);
    std::ranges::stable_sort(slow, {}, [&](const SlowLink& link) { return rate(link) / link.expected; });
    for (std::size_t i = 0; i < std::min(slow.size(), most_shown); ++i)
        out.result("slow: {} to {} has {}, its ends can {}\n", hardware.hosts[slow[i].from].name,
                   hardware.hosts[slow[i].to].name, format_rate(rate(slow[i])), format_rate(slow[i].expected));
    if (slow.size() > most_shown) out.result("slow: {} more\n", slow.size() - most_shown);
}

void print_links(const Hardware& hardware, Output& out) {
    if (hardware.links.empty()) return;
    std::vector<std::string> names;
    std::vector<std::vector<double>> rows;
    for (std::size_t a = 0; a < hardware.hosts.size(); ++a) {
        names.push_back(hardware.hosts[a].name);
        std::vector<double>& row = rows.emplace_back();
        for (const LinkHardware& link : hardware.links[a]) row.push_back(link.rate.median);
    }
    out.result("\nlinks, from row to column\n{}", heat_map(names, rows));
    print_slow_links(hardware, out);
}

void print_peers(const HostHardware& host, Output& out) {
    std::vector<std::string> names;
    std::vector<std::vector<double>> rows;
    for (std::size_t i = 0; i < host.gpus.size(); ++i) {
        if (host.gpus[i].peers.empty()) return;
        names.push_back(fmt::format("GPU {}", i));
        std::vector<double>& row = rows.emplace_back();
        for (const MeasuredValue& peer : host.gpus[i].peers) row.push_back(peer.median);
    }
    out.result("\nGPUs of {}, from row to column\n{}", host.name, heat_map(names, rows));
}

void print_nccl(const NcclHardware& nccl, Output& out) {
    if (nccl.gpus == 0) return;
    out.result("\nNCCL, {}: all-reduce {}", counted(std::uint64_t(nccl.gpus), "GPU"), rate_of(nccl.all_reduce.median));
    for (std::size_t kind = 0; kind < nccl.between.size(); ++kind)
        if (nccl.between[kind].median > 0)
            out.result(", {} {}", pair_class_names[kind], format_rate(nccl.between[kind].median));
    out.result("\n");
}

// Those of the first host of each class, which stands for the others.
void print_gpus(const Hardware& hardware, Output& out) {
    const std::vector<int> classes = classes_of(hardware);
    std::vector<const HostHardware*> shown;
    for (std::size_t i = 0; i < classes.size(); ++i)
        if (std::ranges::find(classes, classes[i]) - classes.begin() == static_cast<std::ptrdiff_t>(i) &&
            !hardware.hosts[i].gpus.empty())
            shown.push_back(&hardware.hosts[i]);
    if (shown.empty()) return;
    out.result("\n{} {:>4} {:>7} {:>11} {:>11} {:>11}  {}\n", column("GPUs of a class"), "NUMA", "NVLinks", "to device",
               "from device", "its memory", "name");
    for (const HostHardware* host : shown)
        for (std::size_t i = 0; i < host->gpus.size(); ++i) {
            const GpuHardware& gpu = host->gpus[i];
            out.result("{} {:>4} {:>7} {:>11} {:>11} {:>11}  {}\n", column(fmt::format("{} {}", host->name, i)),
                       gpu.numa_node < 0 ? "-" : fmt::format("{}", gpu.numa_node), gpu.nvlinks,
                       rate_of(gpu.to_device.median), rate_of(gpu.from_device.median), rate_of(gpu.copy.median),
                       gpu.name);
        }
    for (const HostHardware* host : shown) print_peers(*host, out);
    print_nccl(hardware.nccl, out);
}

}  // namespace

std::string heat_map(const std::vector<std::string>& names, const std::vector<std::vector<double>>& rows) {
    constexpr std::array<const char*, 4> shades{"░", "▒", "▓", "█"};
    double most = 0;
    for (const auto& row : rows)
        for (const double rate : row) most = std::max(most, rate);
    if (most <= 0) return "";
    const std::size_t by = (rows.size() + most_lines - 1) / most_lines;
    std::string text;
    for (std::size_t a = 0; a < rows.size(); a += by) {
        text += column(names[a]);
        for (std::size_t b = 0; b < rows.size(); b += by) {
            double slowest = 0;
            for (std::size_t i = a; i < std::min(a + by, rows.size()); ++i)
                for (std::size_t k = b; k < std::min(b + by, rows.size()); ++k)
                    if (rows[i][k] > 0 && (slowest == 0 || rows[i][k] < slowest)) slowest = rows[i][k];
            const auto shade = std::min<std::size_t>(3, static_cast<std::size_t>(4 * slowest / most));
            text += fmt::format(" {}", slowest > 0 ? shades[shade] : "·");
        }
        text += "\n";
    }
    text += fmt::format("{} ░ to {}, ▒ to {}, ▓ to {}, █ to {}\n", column(""), format_rate(most / 4),
                        format_rate(most / 2), format_rate(0.75 * most), format_rate(most));
    if (by > 1) text += fmt::format("{} each sign is the slowest of {} × {}\n", column(""), by, by);
    return text;
}

void print_hardware(const Hardware& hardware, Output& out) {
    print_hosts(hardware, out);
    print_pairs(hardware, out);
    print_links(hardware, out);
    print_gpus(hardware, out);
}

}  // namespace tpx::cli
