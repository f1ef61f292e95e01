// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/plan_report.hpp"
#include "cmd/plan/plan_sequence.hpp"
#include "lib/core/units.hpp"

#include <algorithm>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

// The costs of one step, of all steps together, or of the direct change.
struct StepCosts {
    std::uint64_t between_hosts = 0;
    std::uint64_t same_host = 0;
    std::uint64_t local = 0;
    double seconds = 0;
    bool is_time_known = true;  // including the time of copies inside hosts
    bool is_estimate = false;
    std::optional<std::uint64_t> peak;  // of the fullest device, in the step that needs the most
};

StepCosts step_costs(const PlanReport& report) {
    const Change& change = report.change;
    const BytesBySource& total = change.relocation.total;
    StepCosts costs{between_hosts(report), total.same_host, total.local, change.prediction.seconds()};
    costs.is_time_known = costs.seconds > 0 || total.same_host + total.local == 0;
    costs.is_estimate = !change.prediction.is_bound();
    if (change.peak) costs.peak = change.peak->peak();
    return costs;
}

StepCosts costs_of_all(const SequenceReport& report) {
    StepCosts all;
    for (const PlanReport& step : report.steps) {
        const StepCosts one = step_costs(step);
        all.between_hosts += one.between_hosts;
        all.same_host += one.same_host;
        all.local += one.local;
        all.seconds += one.seconds;
        all.is_time_known = all.is_time_known && one.is_time_known;
        all.is_estimate = all.is_estimate || one.is_estimate;
        if (one.peak) all.peak = std::max(all.peak.value_or(0), *one.peak);
    }
    return all;
}

void print_row(const std::string& name, const StepCosts& costs, const std::string& layout, Output& out) {
    out.result("{:<6} {:>13} {:>10} {:>10} {:>9} {:>13}{}\n", name, format_size(costs.between_hosts),
               format_size(costs.same_host), format_size(costs.local),
               costs.is_time_known ? format_seconds(costs.seconds) : "unknown",
               costs.peak ? format_size(*costs.peak) : "", layout.empty() ? "" : fmt::format("  {}", layout));
}

void print_table(const SequenceReport& report, Output& out) {
    out.result("\n{:<6} {:>13} {:>10} {:>10} {:>9} {:>13}  {}\n", "step", "between hosts", "same host", "local", "time",
               "device memory", "layout");
    for (std::size_t step = 0; step < report.steps.size(); ++step)
        print_row(std::to_string(step + 1), step_costs(report.steps[step]), to_string(report.steps[step].to), out);
    print_row("all", costs_of_all(report), "", out);
    print_row("direct", step_costs(report.direct), to_string(report.direct.to), out);
}

bool is_pinned(const PlanReport& report) { return report.change.placement.placed_for == PlacementGoal::order; }

// Prints what is proven about the placements, first for each step, then for all steps together.
void print_proof(const SequenceReport& report, Output& out) {
    const std::uint64_t bytes = costs_of_all(report).between_hosts;
    if (is_pinned(report.direct)) {
        out.result("\nproof  each step sends the least possible between hosts for this order of ranks\n");
        return;
    }
    out.result("\nproof  each step sends the least possible between hosts for blocks of ranks");
    for (std::size_t step = 0; step < report.steps.size(); ++step) {
        if (!report.steps[step].change.placement.is_proven())
            out.result(", except step {}, for the benefit of other steps", step + 1);
    }
    if (report.is_least)
        out.result("\n       {} is the least possible for all steps: hosts have equally many devices\n",
                   format_size(bytes));
    else
        out.result(
            "\n       not proven: hosts differ, so other placements might send less than {} in all steps; {} if each "
            "step is placed on its own\n",
            format_size(bytes), format_size(report.one_by_one));
    out.result("       no sequence sends less than the direct change, {}\n", format_size(between_hosts(report.direct)));
}

Json step_json(const StepCosts& costs) {
    return {{"between_hosts", costs.between_hosts},
            {"same_host", costs.same_host},
            {"local", costs.local},
            {"seconds", costs.seconds},
            {"estimate", costs.is_estimate},
            {"peak_memory", costs.peak ? Json(*costs.peak) : Json(nullptr)}};
}

}  // namespace

void print_sequence(const SequenceReport& report, Output& out) {
    const auto layout_line = [&](const char* name, const Layout& layout) {
        out.result("{:<6} {} ({} rank{})\n", name, to_string(layout), layout.ranks(), layout.ranks() == 1 ? "" : "s");
    };
    out.result("model  {}\n", report.direct.model->name);
    layout_line("from", *report.direct.from);
    for (std::size_t step = 0; step + 1 < report.steps.size(); ++step) layout_line("via", report.steps[step].to);
    layout_line("to", report.direct.to);
    print_sources(report.steps.front(), out);
    print_table(report, out);
    print_proof(report, out);
    const StepCosts all = costs_of_all(report), direct = step_costs(report.direct);
    if (all.is_time_known && direct.is_time_known)
        out.result("time   {}{} for all steps, one after the other; {} for the direct change\n",
                   all.is_estimate ? "estimate " : "at least ", format_seconds(all.seconds),
                   format_seconds(direct.seconds));
    if (all.peak && direct.peak)
        out.result("memory {} on the fullest device in any step, {} in the direct change\n", format_size(*all.peak),
                   format_size(*direct.peak));
    print_survival(report.steps.back(), out);
}

nlohmann::ordered_json sequence_json(const SequenceReport& report) {
    Json json{{"model", report.direct.model->name}};
    json["layouts"] = Json::array({to_string(*report.direct.from)});
    json["steps"] = Json::array();
    for (const PlanReport& step : report.steps) {
        json["layouts"].push_back(to_string(step.to));
        Json one{{"schema", "tpx.plan-summary/1"}};
        one.update(plan_json(step));
        json["steps"].push_back(std::move(one));
    }
    json["total"] = step_json(costs_of_all(report));
    json["direct"] = step_json(step_costs(report.direct));
    json["minimal"] = is_pinned(report.direct) || report.is_least;
    json["minimal_for"] = is_pinned(report.direct) ? "this order of ranks" : "blocks of ranks";
    json["one_by_one"] = is_pinned(report.direct) ? costs_of_all(report).between_hosts : report.one_by_one;
    return json;
}

}  // namespace tpx::cli
