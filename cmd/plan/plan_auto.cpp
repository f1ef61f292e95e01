// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/plan_auto.hpp"

#include "cmd/plan/auto_costs.hpp"
#include "cmd/plan/auto_layouts.hpp"
#include "cmd/plan/auto_stores.hpp"
#include "cmd/plan/plan_report.hpp"
#include "cmd/plan/planning.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/units.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace tpx::cli {
namespace {

nlohmann::ordered_json costs_json(const ReachableLayout& row) {
    const ReachableLayout::Costs& costs = *row.costs;
    return {{"layout", to_string(row.layout)}, {"between_hosts", row.crossing}, {"same_host", costs.total.same_host},
            {"local", costs.total.local},      {"kept", costs.total.kept},      {"busiest_host", costs.busiest_host},
            {"seconds", costs.seconds},        {"step_seconds", row.step}};
}

nlohmann::ordered_json auto_json(const ComparedLayouts& found, const PlanOptions& options) {
    auto first = nlohmann::ordered_json::array();
    auto others = nlohmann::ordered_json::array();
    for (const ReachableLayout& row : found.layouts) {
        if (row.costs)
            first.push_back(costs_json(row));
        else
            others.push_back({{"layout", to_string(row.layout)},
                              {row.is_exact ? "between_hosts" : "between_hosts_at_least", row.crossing},
                              {"step_seconds", row.step}});
    }
    nlohmann::ordered_json json{{"from", to_string(found.from)}, {"ranks", found.ranks}};
    json["step_times"] = options.throughput.empty() ? "estimated" : "fitted";
    json["assumed"] = found.assumed;
    if (!found.fit_of_other.empty()) json["assumed"].push_back(found.fit_of_other);
    json["left_out"] = {{"layouts", found.too_large}, {"device_memory", found.device_memory}};
    json["left_out"]["is_memory_known"] = found.is_memory_known;
    json["left_out"]["split_tp_groups"] = found.split;
    for (const auto& [technique, count] : found.excluded_by_technique)
        json["left_out"]["excluded"][std::string{technique}] = count;
    json["candidates"] = std::move(first);
    json["others"] = std::move(others);
    return json;
}

// The time to copy bytes inside hosts is unknown.
std::string layout_time(const ReachableLayout::Costs& costs) {
    const bool is_known = costs.seconds > 0 || costs.total.same_host + costs.total.local == 0;
    return is_known ? format_seconds(costs.seconds) : "unknown";
}

void print_notes(const ComparedLayouts& found, const PlanOptions& options, Output& out) {
    const auto excluded = [](std::size_t count) { return counted(count, "layout") + " excluded"; };
    const std::string memory = format_bytes(found.device_memory);
    if (found.excluded > 0) out.note("{}: {}", excluded(found.excluded), excluded_text(found.excluded_by_technique));
    if (found.split > 0) out.note("{}: a TP group would be split over hosts", excluded(found.split));
    if (found.too_large > 0 && found.is_memory_known)
        out.note("{}: the state of a rank does not fit into device memory (at most {})", excluded(found.too_large),
                 memory);
    if (!found.is_memory_known && found.too_large > 0)
        out.note("{}: more than {} needed per device, the most that any device on sale has", excluded(found.too_large),
                 memory);
    if (!found.is_memory_known)
        out.note("device memory is unknown; pass --gpu-memory to exclude layouts that do not fit");
    if (options.throughput.empty())
        out.note("step times are estimates that are not fitted to measured steps: {}; --throughput gives a fit",
                 fmt::join(found.assumed, ", "));
    else
        out.note("step times are predicted by the fit in {}", options.throughput);
    if (!found.fit_of_other.empty()) out.note("{}; step times are those of the fitted model", found.fit_of_other);
}

void print(const ComparedLayouts& found, std::size_t most, Output& out) {
    out.result("{:>13} {:>12} {:>10} {:>9} {:>9}  {}\n", "between hosts", "busiest host", "same host", "time", "step",
               "layout");
    std::size_t lines = 0;
    for (const ReachableLayout& row : found.layouts) {
        if (!row.costs || lines == most) break;
        out.result("{:>13} {:>12} {:>10} {:>9} {:>9}  {}\n", format_size(row.crossing),
                   format_size(row.costs->busiest_host), format_size(row.costs->total.same_host),
                   layout_time(*row.costs), format_seconds(row.step), to_string(row.layout));
        ++lines;
    }
    if (found.layouts.size() > lines)
        out.note("{} of {} shown; --json lists all", lines, counted(found.layouts.size(), "layout"));
}

}  // namespace

void plan_auto(const PlanOptions& options, Output& out) {
    if (options.list) throw Error{Exit::usage, "--list: one layout must be given with --to"};
    const auto most = static_cast<std::size_t>(options.top.value_or(max_compared_layouts));
    const bool in_stores = !options.stores.empty() && options.checkpoint.empty();
    const ComparedLayouts found = in_stores ? compare_layouts_in_stores(options) : compare_layouts(options);
    print_notes(found, options, out);
    if (asks_for_files(options)) {
        PlanOptions best = options;
        best.to = to_string(found.layouts.front().layout);
        write_plan_files(options, make_plan_report(best));
    }
    if (out.json()) return out.object("tpx.plan-auto/2", auto_json(found, options));
    print(found, most, out);
}

}  // namespace tpx::cli
