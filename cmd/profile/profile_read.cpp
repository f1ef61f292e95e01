// SPDX-License-Identifier: Apache-2.0
#include "cmd/output/output.hpp"
#include "cmd/output/output_file.hpp"
#include "cmd/profile/profile.hpp"
#include "formats/files/profile/logs/training_log.hpp"
#include "formats/files/profile/placement.hpp"
#include "formats/files/profile/runs_file.hpp"
#include "formats/files/profile/runs_table.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/read_record.hpp"
#include "lib/core/write_file.hpp"
#include "lib/model/execution_plan.hpp"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

namespace tpx::cli {
namespace {

using nlohmann::ordered_json;

// Throws Error (usage) if --on contradicts --gpus or --with.
void check_gpus(const ProfileReadOptions& options, int gpus) {
    const bool has_plan = !options.plan.empty();
    if (has_plan) gpus = parse_execution_plan(options.plan).gpus();
    if (options.placement.empty()) return;
    const std::vector<int> hosts = formats::parse_placement(options.placement);
    const int placed = std::reduce(hosts.begin(), hosts.end());
    if (gpus != 0 && gpus != placed)
        throw Error{
            Exit::usage, "--on {} has {}, but {}", options.placement, counted(placed, "GPU"),
            has_plan ? fmt::format("--with {} uses {}", options.plan, gpus) : fmt::format("--gpus is {}", gpus)};
}

formats::RunOverrides run_overrides(const ProfileReadOptions& options) {
    formats::RunOverrides overrides{options.model, options.gpu, options.plan, options.placement};
    overrides.gpus = static_cast<int>(options.gpus.value_or(0));
    check_gpus(options, overrides.gpus);
    overrides.per_host = static_cast<int>(options.per_host.value_or(0));
    overrides.batch = static_cast<int>(options.batch.value_or(0));
    overrides.sequence_length = static_cast<int>(options.sequence.value_or(0));
    return overrides;
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
    std::vector<std::string> skipped = runs.short_runs;
    skipped.insert(skipped.end(), runs.without_steps.begin(), runs.without_steps.end());
    skipped.insert(skipped.end(), runs.on_nvme.begin(), runs.on_nvme.end());
    return {{"runs", rows}, {"missing", missing}, {"left_out", skipped}};
}

void print_notes(const formats::RunsTable& runs, Output& out) {
    const std::size_t rows = runs.table.rows.size();
    out.note("{}: {} used, {} dropped", counted(rows, "run"), counted(runs.used, "step"),
             counted(runs.dropped, "warm-up step"));
    if (!runs.short_runs.empty())
        out.note("skipped, no step times after warm-up: {}", fmt::join(runs.short_runs, "; "));
    if (!runs.without_steps.empty()) out.note("skipped, no step times: {}", fmt::join(runs.without_steps, "; "));
    if (!runs.on_nvme.empty())
        out.note("skipped, offloads to NVMe drives, which the throughput model does not cover: {}",
                 fmt::join(runs.on_nvme, "; "));
    if (!runs.by_clock.empty())
        out.note("step times were computed from the times between records: {}", fmt::join(runs.by_clock, "; "));
    if (!runs.of_trained_tokens.empty())
        out.note(
            "rates such as torchtune's count only tokens that contribute to the loss; if there were others, such as "
            "padding, the step "
            "times are too long: {}",
            fmt::join(runs.of_trained_tokens, "; "));
    if (!runs.also_out_of_memory.empty())
        out.note("also ran out of memory, after the steps used or in another attempt: {}",
                 fmt::join(runs.also_out_of_memory, "; "));
    if (runs.missing.empty()) return;
    std::vector<std::string> names, options;
    for (const formats::MissingSetting& each : runs.missing) {
        names.push_back(each.rows == rows ? each.name
                                          : fmt::format("{} ({} of {})", each.name, each.rows, counted(rows, "run")));
        options.push_back(each.option);
    }
    out.note("missing from the log{}: {}; pass {}", rows == 1 ? "" : "s", fmt::join(names, ", "),
             fmt::join(options, ", "));
}

}  // namespace

void run_profile_read(const ProfileReadOptions& options, Output& out) {
    if (!is_first_rank()) return;
    const formats::RunOverrides overrides = run_overrides(options);
    const ReadRecord record;
    std::vector<formats::TrainingLog> logs;
    for (const std::string& path : options.logs) logs.push_back(formats::read_training_log(path));
    check_outputs_apart({{"--output", options.output}}, record);
    const formats::RunsTable runs = formats::runs_table(logs, overrides);
    print_notes(runs, out);
    const std::string csv = formats::csv_text(runs.table);
    if (!options.output.empty()) write_file(options.output, csv);
    if (out.json()) return out.object("tpx.profile.runs/1", runs_json(runs));
    if (options.output.empty()) out.data("{}", csv);
}

}  // namespace tpx::cli
