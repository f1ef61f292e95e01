// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/shared_options.hpp"
#include "cmd/output/output.hpp"
#include "cmd/output/output_file.hpp"
#include "cmd/profile/fit_progress.hpp"
#include "cmd/profile/implausible_times.hpp"
#include "cmd/profile/profile.hpp"
#include "cmd/profile/suggest_runs.hpp"
#include "formats/files/profile/runs_file.hpp"
#include "formats/files/profile/throughput_file.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/nearest.hpp"
#include "lib/core/read_input.hpp"
#include "lib/core/write_file.hpp"
#include "lib/model/hold_out.hpp"
#include "lib/model/techniques.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace tpx::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t fewest_runs = 7;
constexpr std::size_t fewest_offloaded = 3;
constexpr double worst_explained = 0.2;  // a mean error above this explains nothing

// Everything that is found out about the runs.
struct Findings {
    formats::ThroughputModel model;
    std::vector<Run> runs, memory_runs;  // with times, and with memory alone
    Belief prior;
    std::vector<std::size_t> outliers;
    std::vector<double> errors;  // of the runs that were fitted
    std::vector<Certainty> certainties;
    std::vector<std::string_view> excluded;  // techniques that suggestions do not use
    Suggestions suggestions;
};

constexpr std::uint64_t largest_table = std::uint64_t{64} << 20;

std::string read_text(const std::string& path) { return read_file(path, largest_table); }

// Notes on how the columns of `file` were understood; a column that is hardly spelled otherwise than a known one is an
// error.
void report_columns(const std::string& file, const formats::RunRows& rows, Output& out) {
    for (const auto& [column, quantity] : rows.aliases)
        out.note("{}: column '{}' is read as {}", file, column, quantity);
    for (const std::string& column : rows.unknown_columns) {
        constexpr std::size_t shortest = 4;  // other short names are too close to dp and tp
        const std::string meant = did_you_mean(column, formats::run_quantities());
        if (column.size() >= shortest && !meant.empty())
            throw failure("{}: unknown column '{}'{}", file, column, meant);
        out.note("{}: column '{}' is not used", file, column);
    }
}

// A table of runs, and what its columns are.
struct RunsTable {
    formats::Table table;
    formats::ColumnMap columns;
};

RunsTable read_table(const ProfileFitOptions& options) {
    formats::Table table = formats::parse_table(read_input(options.runs, largest_table), input_name(options.runs));
    formats::ColumnMap columns = options.columns.empty()
                                     ? formats::default_columns(table)
                                     : formats::parse_columns(read_text(options.columns), options.columns);
    return {std::move(table), std::move(columns)};
}

void read_runs(const RunsTable& runs, bool assumes_sequence, Findings& found, Output& out) {
    const auto& [table, columns] = runs;
    const formats::ThroughputModel& model = found.model;
    const std::string& name = table.file;
    const bool knows_sequence =
        model.size.sequence > 1 && !assumes_sequence;  // else rates of tokens or FLOPs are errors
    formats::RunRows rows =
        formats::read_run_rows(table, columns,
                               {model.batch, model.gpus_per_nic, model.cpus, knows_sequence ? model.size.sequence : 0,
                                assumes_sequence ? 0 : model.size.sample_flops()});
    report_columns(name, rows, out);
    if (!rows.failed.empty())
        out.note("{} without a time{}, such as {}, {} left out", counted(rows.failed.size(), "row"),
                 rows.has_status ? " or with a failed status" : "", rows.failed[0],
                 rows.failed.size() == 1 ? "is" : "are");
    if (!rows.memory_runs.empty())
        out.note("{} without a time, such as {}, {} used for the memory estimate alone",
                 counted(rows.memory_runs.size(), "row"), rows.memory_runs[0].label,
                 rows.memory_runs.size() == 1 ? "is" : "are");
    if (rows.from_flops > 0)
        out.note(
            "the times of {} are computed from TFLOP/s and {:.4g} TFLOP per sample, forward and backward (6 FLOP per "
            "parameter and token, plus attention); see tpx-throughput(5) if the framework counts differently",
            counted(rows.from_flops, "run"), model.size.sample_flops() / 1e12);
    if (rows.expert_parallel > 0)
        out.note("{} with expert parallelism; the throughput model ignores its communication",
                 counted(rows.expert_parallel, "run"));
    if (const auto absurd = implausible_times(model.size, rows.runs, rows.gpu)) out.note("{}: {}", name, *absurd);
    found.runs = std::move(rows.runs);
    found.memory_runs = std::move(rows.memory_runs);
}

void check_runs(const std::string& file, const std::vector<Run>& runs, Output& out) {
    if (runs.size() < fewest_runs)
        throw failure(
            "{}: contains {}, but a fit needs at least {}; --suggest lists the runs that improve the fit most", file,
            counted(runs.size(), "run"), fewest_runs);
    const bool same = std::ranges::all_of(runs, [&](const Run& run) {
        return run.plan == runs[0].plan && run.allocation.gpus == runs[0].allocation.gpus && run.batch == runs[0].batch;
    });
    if (same) throw failure("{}: all {} runs are of the plan {}", file, runs.size(), to_string(runs[0].plan));
    const std::size_t different = count_configurations(runs);
    if (different < runs.size())
        out.note("{}: {} of {}; repeated runs of a configuration count as one", file, counted(runs.size(), "run"),
                 counted(different, "configuration"));
    const auto offloaded = std::ranges::count_if(runs, [](const Run& run) { return run.plan.offload; });
    if (offloaded > 0 && static_cast<std::size_t>(offloaded) < fewest_offloaded)
        out.note("{} of the runs offload; {} are needed to separate its costs", offloaded, fewest_offloaded);
}

// Half of the magnitudes of `errors` are above it, so that a few wrong runs do not matter.
double median_magnitude(std::vector<double> errors) {
    for (double& error : errors) error = std::abs(error);
    const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
    std::ranges::nth_element(errors, middle);
    return *middle;
}

// Writes what `result` says of the `fitted` runs into the model. Returns how sure predictions are.
Uncertainty describe_fit(const Fit& result, const std::vector<Run>& fitted, Findings& found, FitProgress& progress) {
    formats::ThroughputModel& model = found.model;
    const std::vector<double> left_out = leave_one_out(model.size, fitted, found.prior, result, progress.count());
    const Uncertainty uncertainty = uncertainty_of(result, left_out);
    model.parameters = result.parameters;
    model.covariance = result.belief.covariance;
    model.interval_scale = uncertainty.scale;
    model.runs = fitted.size();
    model.error = mean_magnitude(result.errors);
    model.leave_one_out_error = mean_magnitude(left_out);
    std::vector<Run> sized = fitted;
    sized.insert(sized.end(), found.memory_runs.begin(), found.memory_runs.end());
    model.memory = calibrate_memory(model.size, sized);
    if (!model.batch) model.batch = fitted[0].batch;
    return uncertainty;
}

Uncertainty fit(Findings& found, bool drop_outliers, FitProgress& progress) {
    const std::size_t left_out = count_configurations(found.runs);
    progress.set_later(fit_starts + left_out);
    found.outliers = outliers(found.model.size, found.runs, found.prior, progress.count());
    progress.set_later(left_out);
    std::vector<Run> fitted;
    for (std::size_t i = 0; i < found.runs.size(); ++i)
        if (!drop_outliers || std::ranges::count(found.outliers, i) == 0) fitted.push_back(found.runs[i]);
    const Fit result = fit_parameters(found.model.size, fitted, found.prior, fit_starts, progress.count());
    progress.set_later(0);
    found.errors = result.errors;
    found.certainties = certainties(result);
    const Uncertainty uncertainty = describe_fit(result, fitted, found, progress);
    if (const double typical = median_magnitude(result.errors); typical > worst_explained)
        throw Error{Exit::no,
                    "the model does not explain these runs: half of them are off by {:.0f} % or more; are units, plans "
                    "and placements right?",
                    100 * typical};
    return uncertainty;
}

std::string named(const Run& run) {
    return fmt::format("{} on {}", to_string(run.plan), formats::placement_text(run.allocation.gpus));
}

void print_suggestions(const Findings& found, Output& out) {
    for (const auto& [run, error] : found.suggestions)
        out.result("measure  {:<44} then the expected error is {:.1f} %\n", named(run), 100 * error);
}

void print_text(const Findings& found, const std::string& file, Output& out) {
    const formats::ThroughputModel& model = found.model;
    const double worst = std::abs(*std::ranges::max_element(found.errors, {}, [](double e) { return std::abs(e); }));
    out.result("model    {}, {:.3g} parameters\n", model.size.name, model.size.parameters);
    out.result("runs     {} of {}\n", model.runs, file);
    out.result("error    {:.1f} % on average, {:.1f} % at worst; {:.1f} % when each is predicted from the others\n\n",
               100 * model.error, 100 * worst, 100 * model.leave_one_out_error);
    out.result("{:<16} {:>10} {:>22}  {}\n", "parameter", "value", "90 % between", "unit");
    for (int i = 0; i < parameter_count; ++i) {
        const ParameterInfo& info = parameter_infos()[i];
        const Certainty& sure = found.certainties[i];
        const std::string between = fmt::format("{:.3g} and {:.3g}", sure.low, sure.high);
        const std::string unknown = sure.learned < determined ? "  not determined by these runs" : "";
        out.result("{:<16} {:>10.3g} {:>22}  {}{}\n", info.name, *model.parameters.*info.value, between, info.unit,
                   unknown);
    }
    if (!found.outliers.empty() || !found.suggestions.empty()) out.result("\n");
    for (const std::size_t i : found.outliers)
        out.result("outlier  {}: {} took {:.4g} s\n", found.runs[i].label, named(found.runs[i]), found.runs[i].seconds);
    print_suggestions(found, out);
}

ordered_json suggestions_json(const Findings& found) {
    ordered_json list = ordered_json::array();
    for (const auto& [run, error] : found.suggestions)
        list.push_back({{"plan", to_string(run.plan)}, {"placement", run.allocation.gpus}, {"expected_error", error}});
    return list;
}

ordered_json fit_json(const Findings& found) {
    const formats::ThroughputModel& model = found.model;
    ordered_json parameters;
    for (int i = 0; i < parameter_count; ++i) {
        const ParameterInfo& info = parameter_infos()[i];
        const Certainty& sure = found.certainties[i];
        parameters[std::string{info.name}] = {{"value", *model.parameters.*info.value},
                                              {"unit", info.unit},
                                              {"low", sure.low},
                                              {"high", sure.high},
                                              {"learned", sure.learned},
                                              {"determined", sure.learned >= determined}};
    }
    ordered_json named_outliers = ordered_json::array();
    for (const std::size_t i : found.outliers) named_outliers.push_back(found.runs[i].label);
    return {{"model", model.size.name},   {"runs", model.runs},
            {"error", model.error},       {"left_out_error", model.leave_one_out_error},
            {"errors", found.errors},     {"parameters", parameters},
            {"outliers", named_outliers}, {"suggestions", suggestions_json(found)}};
}

void print_hold_out(const Findings& found, int count, FitProgress& progress, Output& out) {
    const std::size_t configurations = count_configurations(found.runs);
    if (count >= static_cast<int>(configurations))
        throw Error{Exit::usage, "--hold-out: {} of {} leave none to predict", count,
                    counted(configurations, configurations == found.runs.size() ? "run" : "configuration")};
    const HoldOutResult held = hold_out(found.model.size, found.runs, found.prior, count, {}, progress.count());
    progress.finish();
    const double covered = static_cast<double>(held.covered) / static_cast<double>(held.test.size());
    double worst = 0;
    for (const double error : held.errors) worst = std::max(worst, std::abs(error));
    if (out.json()) {
        ordered_json runs = ordered_json::array();
        for (std::size_t i = 0; i < held.test.size(); ++i)
            runs.push_back({{"run", found.runs[held.test[i]].label}, {"error", held.errors[i]}});
        return out.object("tpx.profile.hold-out/1", {{"fitted", held.train.size()},
                                                     {"error", mean_magnitude(held.errors)},
                                                     {"worst", worst},
                                                     {"covered", covered},
                                                     {"predicted", runs}});
    }
    for (const std::size_t i : held.train) out.result("fitted     {}\n", named(found.runs[i]));
    for (std::size_t i = 0; i < held.test.size(); ++i)
        out.result("predicted  {:<44} {:+.1f} %\n", named(found.runs[held.test[i]]), 100 * held.errors[i]);
    out.result("error      {:.1f} % on average, {:.1f} % at worst, of {} not fitted\n",
               100 * mean_magnitude(held.errors), 100 * worst,
               held.test.size() == 1 ? "1 run that was" : fmt::format("{} runs that were", held.test.size()));
    out.result("intervals  {:.0f} % of these runs are inside their 90 % interval\n", 100 * covered);
}

}  // namespace

void run_profile_fit(const ProfileFitOptions& options, Output& out) {
    if (!is_first_rank()) return;
    for (const auto& [option, list] : {std::pair{"--without", &options.without}, {"--only", &options.only}})
        if (!list->empty() && !options.suggest) throw Error{Exit::usage, "{} requires --suggest", option};
    Findings found;
    const ReadRecord record;
    const RunsTable runs = read_table(options);
    const auto sequence = [&] { return formats::common_sequence(runs.table, runs.columns); };
    const NamedModel named = read_named_model(options, sequence, out);
    found.model = named.model;
    found.prior = formats::belief_before(found.model);
    if (!options.like.empty()) found.prior = formats::uncertainty_of(found.model).belief;
    if (!named.is_description) note_missing_sizes(found.model.size, options.model, out);
    read_runs(runs, named.assumes_sequence, found, out);
    check_outputs_apart({{"--output", options.output}}, record);
    const auto suggested = static_cast<int>(options.suggest.value_or(0));
    found.excluded = excluded_techniques(options, techniques);
    FitProgress progress{out};
    const auto suggest = [&](const Uncertainty& uncertainty) {
        return suggest_runs(found.model, found.runs, found.excluded, uncertainty, suggested, progress.count());
    };
    if (options.hold_out) return print_hold_out(found, static_cast<int>(*options.hold_out), progress, out);
    if (suggested > 0 && found.runs.size() < fewest_runs) {
        found.suggestions = suggest({belief_without_fit(found.model.size, found.runs, found.prior), 1});
        progress.finish();
        if (!options.output.empty())
            out.note("{} is not written: a fit needs at least {} runs, and {} has {}", options.output, fewest_runs,
                     input_name(options.runs), found.runs.size());
        if (out.json()) return out.object("tpx.profile.suggest/1", {{"suggestions", suggestions_json(found)}});
        return print_suggestions(found, out);
    }
    check_runs(input_name(options.runs), found.runs, out);
    const Uncertainty uncertainty = fit(found, options.drop_outliers, progress);
    if (!options.output.empty()) write_file(options.output, formats::throughput_model_text(found.model));
    if (suggested > 0) found.suggestions = suggest(uncertainty);
    progress.finish();
    out.json() ? out.object("tpx.profile.fit/1", fit_json(found)) : print_text(found, input_name(options.runs), out);
}

}  // namespace tpx::cli
