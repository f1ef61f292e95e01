// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/plan_report.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/units.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_sets = 5;  // how many sets of hosts, and how many hosts, are printed one by one

std::vector<std::string> names_of(const PlanReport& report, const std::vector<std::int32_t>& hosts) {
    std::vector<std::string> names;
    for (std::int32_t host : hosts) names.push_back(report.change.hosts[static_cast<std::size_t>(host)].name);
    return names;
}

std::size_t hosts_in_use(const PlanReport& report) {
    std::vector<bool> used(report.change.hosts.size());
    for (const Block& block : report.change.placement.blocks) used[block.host] = true;
    return static_cast<std::size_t>(std::ranges::count(used, true));
}

std::string spared_words(const PlanReport& report, const Survival& survival) {
    const std::size_t hosts = hosts_in_use(report);
    if (survival.tolerated_losses() == 0)
        return fmt::format("no host loss: some state is on only one of {}", counted(hosts, "host"));
    return fmt::format("the loss of any {} of {} hosts: all state is on at least {} of them",
                       survival.tolerated_losses(), hosts, survival.copies);
}

// "the memory of host0, host1 and in shared storage".
std::string words_of(const PlanReport& report, const std::vector<StateSource>& sources) {
    std::vector<std::string> hosts;
    for (const StateSource& source : sources) {
        if (source.host != from_storage) hosts.push_back(report.change.hosts[source.host].name);
    }
    std::string words;
    if (!hosts.empty())
        words = fmt::format("the {} of {}", report.change.state == StateMedium::stores ? "stores" : "memory",
                            hosts.size() > most_sets ? fmt::format("{} hosts", hosts.size())
                                                     : fmt::format("{}", fmt::join(hosts, ", ")));
    if (hosts.size() == sources.size()) return words;
    return words + (words.empty() ? "shared storage" : " and in shared storage");
}

}  // namespace

void print_survival(const PlanReport& report, Output& out) {
    if (!report.survival) return;
    const Survival& survival = *report.survival;
    out.result("\nsurvives {}\n", spared_words(report, survival));
    for (std::size_t i = 0; i < std::min(most_sets, survival.critical.size()); ++i) {
        const CriticalHosts& critical = survival.critical[i];
        out.result("         only on {}: {}\n", fmt::join(names_of(report, critical.hosts), ", "),
                   format_size(critical.bytes));
    }
    if (survival.critical.size() > most_sets)
        out.result("         and {} more sets of hosts (--json)\n", survival.critical.size() - most_sets);
    if (static_cast<std::size_t>(survival.copies) == hosts_in_use(report)) return;
    out.result("         one more copy of this state takes {}, at least {} on some host\n",
               format_size(survival.next_copy()),
               format_size((survival.next_copy() + hosts_in_use(report) - 1) / hosts_in_use(report)));
}

nlohmann::ordered_json survival_json(const PlanReport& report) {
    const Survival& survival = *report.survival;
    Json copies = Json::object();
    for (const auto& [count, bytes] : survival.bytes_by_copies) copies[std::to_string(count)] = bytes;
    Json critical = Json::array();
    for (const CriticalHosts& each : survival.critical)
        critical.push_back({{"hosts", names_of(report, each.hosts)}, {"bytes", each.bytes}});
    return {{"hosts_spared", survival.tolerated_losses()},
            {"bytes_by_copies", copies},
            {"critical", critical},
            {"next_copy", survival.next_copy()}};
}

void print_sources(const PlanReport& report, Output& out) {
    std::vector<StateSource> known, unknown;
    for (const StateSource& source : report.change.sources) (source.iteration ? known : unknown).push_back(source);
    if (known.empty()) return;
    out.result("state  iteration {}, in {}{}\n", *known.front().iteration, words_of(report, known),
               unknown.empty() ? "" : fmt::format("; of unknown iteration in {}", words_of(report, unknown)));
}

nlohmann::ordered_json sources_json(const PlanReport& report) {
    Json list = Json::array();
    for (const StateSource& source : report.change.sources)
        list.push_back({{"host", source.host == from_storage ? Json(nullptr) : Json(source.host)},
                        {"iteration", source.iteration ? Json(*source.iteration) : Json(nullptr)}});
    return list;
}

void print_peak(const PlanReport& report, Output& out) {
    if (!report.change.peak) return;
    const PeakMemory& peak = *report.change.peak;
    const Host& host = report.change.hosts[peak.host];
    out.result("memory {} on device {} of {} while state moves: {} before, {} after, {} of it the same, {} staging{}\n",
               format_size(peak.peak()), peak.device, host.name, format_size(peak.before), format_size(peak.after),
               format_size(peak.kept), format_size(peak.staging),
               host.device_memory ? fmt::format("; it has {}", format_bytes(*host.device_memory)) : "");
}

nlohmann::ordered_json peak_json(const PeakMemory& peak) {
    return {{"host", peak.host}, {"device", peak.device},   {"before", peak.before}, {"after", peak.after},
            {"kept", peak.kept}, {"staging", peak.staging}, {"peak", peak.peak()}};
}

}  // namespace tpx::cli
