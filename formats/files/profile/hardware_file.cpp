// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/hardware_file.hpp"

#include "formats/files/plan/host_names.hpp"
#include "formats/files/toml_text.hpp"
#include "lib/core/units.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace tpx::formats {
namespace {

constexpr std::size_t few_hosts = 16;

bool is_measured(const MeasuredValue& measured, const FigureRange& range) {
    return range.has(measured.median) && std::isfinite(measured.spread);
}

// "[119500000, 0.012]"; nothing in the brackets: not measured.
std::string pair_of(const MeasuredValue& measured, const FigureRange& range = rates_of_files) {
    if (!is_measured(measured, range)) return "[]";
    if (measured.median < 1) return fmt::format("[{:.4g}, {:.3g}]", measured.median, measured.spread);
    return fmt::format("[{:.0f}, {:.3g}]", measured.median, measured.spread);
}

std::string pair_line(std::string_view key, const MeasuredValue& measured, const FigureRange& range = rates_of_files) {
    return is_measured(measured, range) ? fmt::format("{} = {}\n", key, pair_of(measured, range)) : "";
}

std::string count_line(std::string_view key, int count, int unknown = 0) {
    return count == unknown ? "" : fmt::format("{} = {}\n", key, count);
}

std::string text_line(std::string_view key, std::string_view text) {
    return text.empty() ? "" : fmt::format("{} = {}\n", key, toml_string(text));
}

// Hosts one after another that differ in nothing but the numbers in their names share a table.
std::string planning_text(const Hardware& hardware, const std::vector<int>& classes) {
    const std::vector<Host> hosts = hosts_for_planning(hardware, classes);
    std::string text;
    for (std::size_t first = 0; first < hosts.size();) {
        const Host& host = hosts[first];
        std::vector<std::string> names{host.name};
        std::size_t next = first + 1;
        for (; next < hosts.size(); ++next) {
            names.push_back(hosts[next].name);
            const bool one_range = fold_host_names(names).find(',') == std::string::npos;
            if (one_range && classes[next] == classes[first] && hosts[next].switch_group == host.switch_group) continue;
            names.pop_back();
            break;
        }
        text += fmt::format("\n[[hosts]]\nname = {}\ngpus = {}\n", toml_string(fold_host_names(names)), host.gpus);
        text += text_line("switch", host.switch_group);
        const auto rate = [&](std::string_view key, const std::optional<double>& value) {
            if (!value || !rates_of_files.has(*value)) return;
            // A small number would be taken for one of another unit.
            const std::string number =
                *value < 1e4 ? fmt::format("\"{:.0f} B/s\"", *value) : fmt::format("{:.0f}", *value);
            text += fmt::format("{} = {}  # {}\n", key, number, format_rate(*value));
        };
        rate("nic", host.nic);
        rate("disk_read", host.disk_read);
        rate("disk_write", host.disk_write);
        rate("memory", host.memory);
        rate("device_copy", host.device_copy);
        rate("device_link", host.device_link);
        first = next;
    }
    return text;
}

std::string gpu_text(const GpuHardware& gpu) {
    std::string text = "\n[[measured.hosts.gpus]]\n" + text_line("name", gpu.name);
    text += text_line("bus", gpu.bus) + count_line("numa_node", gpu.numa_node, -1) + count_line("nvlinks", gpu.nvlinks);
    for (const auto& quantity : gpu_quantities) text += pair_line(quantity.key, gpu.*quantity.value);
    std::vector<std::string> peers;
    for (const MeasuredValue& peer : gpu.peers) peers.push_back(pair_of(peer));
    return peers.empty() ? text : text + fmt::format("peers = [{}]\n", fmt::join(peers, ", "));
}

std::string host_text(const HostHardware& host, int own_class) {
    std::string text = fmt::format("\n[[measured.hosts]]\nname = {}\nclass = {}\n", toml_string(host.name), own_class);
    text += count_line("ranks", host.ranks) + count_line("sockets", host.sockets) +
            count_line("numa_nodes", host.numa_nodes) + count_line("cores", host.cores) +
            count_line("threads", host.threads);
    for (const auto& quantity : host_quantities) text += pair_line(quantity.key, host.*quantity.value);
    for (const auto& [kind, link] :
         {std::pair{PairClass::same_socket, &host.same_socket}, std::pair{PairClass::same_host, &host.same_host}}) {
        const std::string_view key = pair_class_keys[static_cast<std::size_t>(kind)];
        text +=
            pair_line(key, (*link).rate) + pair_line(fmt::format("{}_latency", key), (*link).latency, times_of_files);
    }
    for (const GpuHardware& gpu : host.gpus) text += gpu_text(gpu);
    return text;
}

std::string matrix(std::string_view key, const Hardware& hardware, MeasuredValue LinkHardware::*value) {
    const FigureRange& range = value == &LinkHardware::rate ? rates_of_files : times_of_files;
    std::string text = fmt::format("{} = [\n", key);
    for (const std::vector<LinkHardware>& row : hardware.links) {
        std::vector<std::string> cells;
        for (const LinkHardware& link : row) cells.push_back(pair_of(link.*value, range));
        text += fmt::format("  [{}],\n", fmt::join(cells, ", "));
    }
    return text + "]\n";
}

std::string links_text(const Hardware& hardware) {
    std::string text;
    if (hardware.links.size() > 1 && (hardware.hosts.size() <= few_hosts || has_uneven_links(hardware)))
        text += "# from the host of the row to that of the column\n" + matrix("links", hardware, &LinkHardware::rate) +
                matrix("latency", hardware, &LinkHardware::latency);
    for (const PairSummary& summary : pair_classes(hardware)) {
        text += fmt::format("\n[measured.pairs.{}]\ncount = {}\n",
                            pair_class_keys[static_cast<std::size_t>(summary.kind)], summary.pairs);
        if (rates_of_files.has(summary.slowest)) text += fmt::format("slowest = {:.0f}\n", summary.slowest);
        text += pair_line("rate", summary.typical.rate) + pair_line("latency", summary.typical.latency, times_of_files);
    }
    return text;
}

std::string nccl_text(const NcclHardware& nccl) {
    if (nccl.gpus == 0) return "";
    std::string text = fmt::format("\n[measured.nccl]\ngpus = {}\n", nccl.gpus);
    for (std::size_t kind = 0; kind < pair_class_keys.size(); ++kind)
        text += pair_line(pair_class_keys[kind], nccl.between[kind]);
    return text + pair_line("all_reduce", nccl.all_reduce);
}

}  // namespace

std::string hardware_text(const Hardware& hardware) {
    const std::vector<int> classes = classes_of(hardware);
    std::string text = "# tpx-hardware(5): written by tpx profile hardware; rates in bytes per second\n" +
                       planning_text(hardware, classes) + "\n[measured]  # [median, spread as a share of it]\n";
    text += links_text(hardware) + nccl_text(hardware.nccl);
    for (std::size_t i = 0; i < hardware.hosts.size(); ++i) text += host_text(hardware.hosts[i], classes[i]);
    return text;
}

}  // namespace tpx::formats
