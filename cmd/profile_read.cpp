// SPDX-License-Identifier: Apache-2.0
#include "cmd/output.hpp"
#include "cmd/output_file.hpp"
#include "cmd/profile.hpp"
#include "formats/profile/logs/training_log.hpp"
#include "formats/profile/runs_file.hpp"
#include "formats/profile/runs_table.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/read_record.hpp"
#include "lib/core/write_file.hpp"
#include "lib/model/execution_plan.hpp"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace tpx::cli {
namespace {

using nlohmann::ordered_json;

formats::GivenRunSettings given_settings(const ProfileReadOptions& options) {
    formats::GivenRunSettings given{options.model, options.gpu, options.plan, options.placement};
    if (!options.plan.empty()) (void)parse_execution_plan(options.plan);
    if (!options.placement.empty()) (void)formats::parse_placement(options.placement);
    given.gpus = whole_number(options.gpus, "--gpus", 0, 1, 1 << 17);
    given.per_host = whole_number(options.per_host, "--per-host", 0, 1, 1024);
    given.batch = whole_number(options.batch, "--batch", 0, 1, 1 << 24);
    given.sequence_length = whole_number(options.sequence, "--sequence", 0, 1, 1 << 30);
    return given;
}

ordered_json runs_json(const formats::RunsTable& runs) {
    constexpr std::array<std::string_view, 5> words{"label", "model", "gpu", "plan", "placement"};
    ordered_json rows = ordered_json::array();
    for (const formats::Table::Row& row : runs.table.rows) {
        ordered_json object;
        for (std::size_t i = 0; i < row.cells.size(); ++i) {
            const std::string& column = runs.table.columns[i];
            const bool is_number = std::ranges::count(words, column) == 0 && ordered_json::accept(row.cells[i]);
            if (!row.cells[i].empty())
                object[column] = is_number ? ordered_json::parse(row.cells[i]) : ordered_json(row.cells[i]);
        }
        rows.push_back(std::move(object));
    }
    ordered_json missing = ordered_json::array();
    for (const formats::MissingSetting& each : runs.missing)
        missing.push_back({{"setting", each.name}, {"option", each.option}, {"runs", each.rows}});
    return {{"runs", rows}, {"missing", missing}, {"left_out", runs.short_runs}};
}

void print_notes(const formats::RunsTable& runs, Output& out) {
    const std::size_t rows = runs.table.rows.size();
    out.note("{}: used {}, dropped {} of warm-up", counted(rows, "run"), counted(runs.used, "step"),
             counted(runs.dropped, "step"));
    if (!runs.short_runs.empty())
        out.note("left out, because fewer than 3 steps are timed: {}", fmt::join(runs.short_runs, "; "));
    if (!runs.also_out_of_memory.empty())
        out.note("ran out of memory in another attempt or later: {}", fmt::join(runs.also_out_of_memory, "; "));
    if (runs.missing.empty()) return;
    std::vector<std::string> names, options;
    for (const formats::MissingSetting& each : runs.missing) {
        names.push_back(each.rows == rows ? each.name : fmt::format("{} ({} of {} runs)", each.name, each.rows, rows));
        options.push_back(each.option);
    }
    out.note("not in the log{}: {}; set {}", rows == 1 ? "" : "s", fmt::join(names, ", "), fmt::join(options, ", "));
}

}  // namespace

void run_profile_read(const ProfileReadOptions& options, Output& out) {
    if (!is_first_rank()) return;
    const formats::GivenRunSettings given = given_settings(options);
    const ReadRecord record;
    std::vector<formats::TrainingLog> logs;
    for (const std::string& path : options.logs) logs.push_back(formats::read_training_log(path));
    check_outputs_apart({{"--output", options.output}}, record);
    const formats::RunsTable runs = formats::runs_table(logs, given);
    print_notes(runs, out);
    const std::string csv = formats::csv_text(runs.table);
    if (!options.output.empty()) write_file(options.output, csv);
    if (out.json()) return out.object("tpx.profile.runs/1", runs_json(runs));
    if (options.output.empty()) out.result("{}", csv);
}

}  // namespace tpx::cli
