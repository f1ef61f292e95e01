// SPDX-License-Identifier: Apache-2.0
#include "cmd/output/html_page.hpp"
#include "cmd/report/report.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>
#include <vector>

namespace tpx::cli {
namespace {

constexpr std::size_t most_flows = 50'000;  // about 2 MB of the page

/// Keeps the largest `most_flows` flows, in their order, and adds the number and the bytes of the others as
/// "flows_left_out".
void keep_largest_flows(nlohmann::ordered_json& plan) {
    const nlohmann::ordered_json flows = std::move(plan["flows"]);
    const auto bytes = [&](std::size_t index) { return flows[index]["bytes"].get<std::uint64_t>(); };
    std::vector<std::size_t> order(flows.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater{}, bytes);
    std::uint64_t left_out = 0;
    for (std::size_t at = most_flows; at < order.size(); ++at) left_out += bytes(order[at]);
    order.resize(most_flows);
    std::ranges::sort(order);
    auto kept = nlohmann::ordered_json::array();
    for (std::size_t index : order) kept.push_back(flows[index]);
    plan["flows"] = std::move(kept);
    plan["flows_left_out"] = {{"flows", flows.size() - most_flows}, {"bytes", left_out}};
}

}  // namespace

std::string html_report(const nlohmann::ordered_json& plan) {
    const HtmlPage page{
        .title = "tpx plan",
        .body = "plan.html",
        .styles = {"base.css", "plan.css"},
        .scripts = {"base.js", "table.js", "figure.js", "plan_data.js", "summary.js", "grid.js", "ranks.js",
                    "ribbons.js", "matrix.js", "flows.js", "loads.js", "time.js", "proof.js", "numbers.js", "plan.js"},
    };
    nlohmann::ordered_json shown = plan;
    if (shown["flows"].size() > most_flows) keep_largest_flows(shown);
    return html_page(page, shown);
}

}  // namespace tpx::cli
