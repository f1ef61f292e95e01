// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/plan.hpp"

#include "cmd/output/output.hpp"
#include "cmd/plan/plan_auto.hpp"
#include "cmd/plan/plan_outputs.hpp"
#include "cmd/plan/plan_report.hpp"
#include "cmd/plan/plan_sequence.hpp"
#include "cmd/plan/planning.hpp"
#include "cmd/report/report.hpp"
#include "formats/files/plan/launch_script.hpp"
#include "formats/files/plan/rank_map.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/write_file.hpp"

namespace tpx::cli {
bool asks_for_files(const PlanOptions& options) {
    for (const std::string* file : {&options.output, &options.launch, &options.rank_map, &options.report})
        if (!file->empty()) return true;
    return false;
}

void write_plan_files(const PlanOptions& options, const PlanReport& report) {
    const auto write = [](const std::string& file, const std::string& text) {
        if (!file.empty()) write_file(file, text);
    };
    check_output_files(options, report);
    if (!options.output.empty()) write_plan(report, options.output);
    if (!options.launch.empty())
        write(options.launch,
              formats::launch_script(report.change.hosts, report.change.placement, to_string(report.to)));
    write(options.rank_map, formats::rank_map(report.change.hosts, report.change.placement));
    if (!options.report.empty()) write_file(options.report, html_report(plan_json(report)));
}

void run_plan(const PlanOptions& options, Output& out) {
    if (!is_first_rank()) return;
    if (!options.check.empty()) return check_plan(options, out);
    if (options.full || options.sample) throw Error{Exit::usage, "--full and --check-ranks are for --check"};
    check_placement_options(options);
    if (!options.via.empty()) return plan_sequence(options, out);
    if (options.to == "auto") return plan_auto(options, out);
    if (options.pareto || options.devices || options.batch || options.sequence || !options.throughput.empty() ||
        options.top || !options.without.empty() || !options.only.empty())
        throw Error{
            Exit::usage,
            "--pareto, --devices, --throughput, --top, --without, --only, --batch and --sequence are for --to auto"};
    const PlanReport report = make_plan_report(options);
    if (report.checkpoint) {
        for (const std::string& note : report.checkpoint->conversion.notes) out.note("{}", note);
    }
    for (const std::string& note : report.notes) out.note("{}", note);
    write_plan_files(options, report);
    if (options.list) return list_moves(report, out);
    out.json() ? out.object("tpx.plan-summary/1", plan_json(report)) : print_plan(report, out);
}

}  // namespace tpx::cli
