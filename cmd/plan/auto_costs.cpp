// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/auto_costs.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tpx::cli {

ReachableLayout::Costs costs_of(const PlanReport& report) {
    ReachableLayout::Costs costs{report.change.relocation.total, 0, report.change.prediction.seconds()};
    for (const Load& load : report.change.relocation.hosts)
        costs.busiest_host = std::max({costs.busiest_host, load.nic_in, load.nic_out});
    return costs;
}

std::string excluded_text(std::span<const std::pair<std::string_view, std::size_t>> excluded) {
    std::string text;
    for (const auto& [technique, count] : excluded)
        text += fmt::format("{}{} with {}", text.empty() ? "" : ", ", count, technique);
    return text;
}

std::uint64_t between_hosts(const BytesBySource& bytes) { return bytes.other_host + bytes.storage; }

bool beats(const ReachableLayout& a, const ReachableLayout& b) {
    return a.crossing <= b.crossing && a.step <= b.step && (a.crossing < b.crossing || a.step < b.step);
}

}  // namespace tpx::cli
