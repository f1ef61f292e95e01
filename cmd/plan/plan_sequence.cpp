// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/plan_sequence.hpp"

#include "cmd/cli/cli.hpp"
#include "cmd/plan/plan_hosts.hpp"
#include "cmd/plan/plan_outputs.hpp"
#include "cmd/plan/plan_report.hpp"
#include "lib/change/place_sequence.hpp"
#include "lib/core/error.hpp"

#include <algorithm>

namespace tpx::cli {
namespace {

std::vector<Layout> given_layouts(const PlanOptions& options) {
    std::vector<Layout> layouts{layout_from_text_or_file(options.from)};
    for (const std::string& via : options.via) layouts.push_back(layout_from_text_or_file(via));
    layouts.push_back(layout_from_text_or_file(options.to));
    return layouts;
}

// The state that moves: without the weights if they are derived.
ModelState moved_state(ModelState model, const PlanOptions& options) {
    if (options.derive_weights) std::erase_if(model.roles, [](const StateRole& role) { return !role.is_optimizer(); });
    return model;
}

// The options for step `step`: after the first step, state that was read from storage is in memory. Only the last step
// reports which hosts can be lost after it.
PlanOptions step_options(const PlanOptions& options, std::size_t step) {
    PlanOptions own = options;
    if (step > 0 && state_from_options(options) == StateMedium::shared) own.state = "memory";
    own.survive = options.survive && step == options.via.size();
    return own;
}

// After a step, all hosts hold the iteration that its sources had, if that is known.
void set_iteration(std::vector<Host>& hosts, const Change& before) {
    const bool is_known =
        std::ranges::all_of(before.sources, [](const StateSource& source) { return source.iteration.has_value(); });
    for (Host& host : hosts)
        host.iteration = is_known && !before.sources.empty() ? before.sources.front().iteration : std::nullopt;
}

void check_sequence_request(const PlanOptions& options) {
    if (options.model.empty()) throw Error{Exit::usage, "--via needs --model"};
    check_model_request(options);
    if (options.to == "auto") throw Error{Exit::usage, "--via: one layout must be given with --to"};
}

// The options for the files of each step: plans are written to FILE.1, FILE.2, ...; other files describe the ranks
// after the last step.
std::vector<PlanOptions> options_of_files(const PlanOptions& options, std::size_t steps) {
    std::vector<PlanOptions> each(steps, options);
    for (std::size_t step = 0; step < steps; ++step) {
        if (!options.output.empty()) each[step].output = fmt::format("{}.{}", options.output, step + 1);
        if (step + 1 == steps) continue;
        each[step].launch.clear();
        each[step].rank_map.clear();
    }
    return each;
}

void write_files(const PlanOptions& options, const SequenceReport& report) {
    const std::vector<PlanOptions> each = options_of_files(options, report.steps.size());
    for (std::size_t step = 0; step < each.size(); ++step) check_output_files(each[step], report.steps[step]);
    for (std::size_t step = 0; step < each.size(); ++step) write_plan_files(each[step], report.steps[step]);
}

void list_steps(const SequenceReport& report, Output& out) {
    if (!out.json()) {
        for (std::size_t step = 0; step < report.steps.size(); ++step) {
            out.data("step {}: {} to {}\n", step + 1, to_string(*report.steps[step].from),
                     to_string(report.steps[step].to));
            list_moves(report.steps[step], out);
        }
        return;
    }
    nlohmann::ordered_json steps = nlohmann::ordered_json::array();
    for (const PlanReport& step : report.steps) {
        nlohmann::ordered_json one{{"schema", "tpx.plan-list/1"}};
        one.update(list_json(step));
        steps.push_back(std::move(one));
    }
    out.object("tpx.plan-sequence-list/1", {{"steps", std::move(steps)}});
}

}  // namespace

std::uint64_t between_hosts(const PlanReport& report) {
    const BytesBySource& total = report.change.relocation.total;
    return total.other_host + total.storage;
}

SequenceReport make_sequence(const PlanOptions& options) {
    check_sequence_request(options);
    const std::vector<Layout> layouts = given_layouts(options);
    const ModelState model = model_from_options(options);
    SequenceReport report;
    std::vector<Host> hosts =
        hosts_from_options(options, std::ranges::max_element(layouts, {}, &Layout::ranks)->ranks());
    std::vector<std::string> notes;
    std::vector<RankLocation> rank_locations = locations_of_old_ranks(options, hosts, layouts.front().ranks(), notes);
    plan_model(report.direct, model, layouts.front(), layouts.back(), hosts, rank_locations, step_options(options, 0));
    SequencePlacement placed;
    if (!options.pin) placed = place_sequence(moved_state(model, options), layouts, hosts, rank_locations);
    for (std::size_t step = 0; step + 1 < layouts.size(); ++step) {
        PlanReport& own = report.steps.emplace_back();
        if (step == 0) own.notes = notes;
        plan_model(own, model, layouts[step], layouts[step + 1], hosts, rank_locations, step_options(options, step),
                   true, options.pin ? std::nullopt : std::optional{placed.steps[step]});
        rank_locations = rank_locations_of(own.change.placement);
        set_iteration(hosts, own.change);
    }
    report.one_by_one = placed.one_by_one;
    report.is_least = placed.is_least;
    return report;
}

void plan_sequence(const PlanOptions& options, Output& out) {
    const SequenceReport report = make_sequence(options);
    for (std::size_t step = 0; step < report.steps.size(); ++step) {
        for (const std::string& note : report.steps[step].notes) out.note("step {}: {}", step + 1, note);
    }
    write_files(options, report);
    if (options.list) return list_steps(report, out);
    out.json() ? out.object("tpx.plan-sequence/1", sequence_json(report)) : print_sequence(report, out);
}

}  // namespace tpx::cli
