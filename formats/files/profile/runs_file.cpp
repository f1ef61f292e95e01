// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/runs_file.hpp"

#include "formats/files/profile/column_aliases.hpp"
#include "formats/files/profile/gres_cells.hpp"
#include "formats/files/profile/run_cells.hpp"
#include "formats/files/profile/run_plan.hpp"
#include "lib/core/counted.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

namespace tpx::formats {
namespace {

constexpr std::array<const char*, 3> time_quantities{"seconds", "rate", "tokens_per_second"};

// The quantity that has the time of the row; none if it did not run.
std::optional<std::string> time_quantity(const RowReader& row) {
    for (const char* quantity : time_quantities)
        if (!cells::lacks_number(row.text(quantity).value_or(""))) return quantity;
    return std::nullopt;
}

// Seconds of a step, from a time or from a rate.
double seconds_of(const RowReader& row, const std::string& quantity, const Run& run, const RunDefaults& defaults) {
    cells::MeasuredTime measured;
    if (quantity == "seconds")
        measured = *row.read(quantity, [](const std::string& text) { return cells::measured_time(text); });
    else
        measured.value = *row.read(quantity, cells::positive);
    return row.in_cell(quantity, [&] {
        const double value = measured.value;
        std::string unit = measured.unit.empty() ? row.unit(quantity) : measured.unit;
        if (unit.empty() && quantity == "tokens_per_second") unit = "tokens/s";
        const cells::StepSize step{run.batch, defaults.sequence, run.allocation.total(), defaults.flops,
                                   run.plan.recompute == Recompute::full};
        const double seconds =
            quantity == "seconds" ? cells::seconds_in(unit, value) : cells::seconds_at(unit, value, step);
        if (seconds > 1e5 || seconds < 1e-6)
            throw failure("a step of {:g} s cannot be right: is it in another unit?", seconds);
        return seconds;
    });
}

// The GPUs that the row records, whatever its plan; 0: none are recorded.
int recorded_gpus(const RowReader& row) {
    if (const auto placed = row.read("placement", [](std::string_view text) { return parse_placement(text); }))
        return std::reduce(placed->begin(), placed->end());
    if (const auto gpus = row.read("gpus", cells::gpu_count)) return *gpus;
    const auto hosts = row.read("hosts", cells::host_count), each = row.read("per_host", cells::gpu_count);
    const auto typed = cells::typed_gpus(row.text("gpu").value_or(""));
    // With hosts, "8x A100" may mean each host or all. With per_host, it is the total only if no plan determines it.
    const bool is_total = !hosts && (!each || (!row.text("dp") && !row.text("plan") && typed && typed->count >= *each));
    if (typed && is_total) return typed->count;
    return hosts && each ? *hosts * *each : 0;
}

// The GPUs of each of `hosts` hosts, which column `source` has, if all have equally many.
int gpus_per_host(const RowReader& row, int gpus, int hosts, const char* source) {
    return row.in_cell(source, [&] {
        if (gpus % hosts != 0)
            throw failure("{} cannot be divided evenly among {}; use a column 'placement', as in 8+8+4",
                          counted(std::uint64_t(gpus), "GPU"), counted(std::uint64_t(hosts), "host"));
        return gpus / hosts;
    });
}

// The GPUs of each host: as placed; or all GPUs filled into hosts of `per_host`, or divided among `hosts`; or one host.
std::vector<int> hosts_of(const RowReader& row, int gpus_of_plan) {
    if (const auto placed = row.read("placement", [](std::string_view text) { return parse_placement(text); }))
        return *placed;
    const int recorded = recorded_gpus(row);
    int left = recorded > 0 ? recorded : gpus_of_plan;
    const auto per_host = row.read("per_host", cells::gpu_count);
    const auto of_job = row.read("gpus", cells::tres_hosts);
    const auto count = row.text("hosts") ? row.read("hosts", cells::host_count) : of_job.value_or(std::nullopt);
    const char* source = row.text("hosts") ? "hosts" : "gpus";
    if (of_job && *of_job && *of_job != count)
        row.in_cell("gpus", [&] {
            throw failure("{} here, but the row has {}", counted(std::uint64_t(**of_job), "host"), *count);
        });
    const int each = per_host ? *per_host : count ? gpus_per_host(row, left, *count, source) : left;
    if (count && (left + each - 1) / each != *count)
        row.in_cell(source, [&] {
            throw failure("{} at {} per host need{} {}, but the row has {}", counted(std::uint64_t(left), "GPU"), each,
                          left == 1 ? "s" : "", counted(std::uint64_t((left + each - 1) / each), "host"), *count);
        });
    std::vector<int> hosts;
    for (; left > 0; left -= hosts.back()) hosts.push_back(std::min(left, each));
    return hosts;
}

// A model is fitted for one number of tokens in a sample.
void check_sequence(const RowReader& row, double sequence) {
    const auto tokens = row.read("sequence_length", cells::positive);
    if (!tokens || sequence <= 0 || *tokens == sequence) return;
    row.in_cell("sequence_length", [&] {
        throw failure("sequence length is {:g}, but the model has sequence = {:g}", *tokens, sequence);
    });
}

// Throws Error if rows mix models or GPU types; a throughput model is fitted to one of each.
class SameModelAndGpu {
public:
    void check(const RowReader& row) {
        for (const char* quantity : {"model", "gpu"}) {
            auto value = row.text(quantity);
            if (!value) continue;
            const auto typed = quantity == std::string_view{"gpu"} ? cells::typed_gpus(*value) : std::nullopt;
            if (typed) value = typed->type;
            if (quantity == std::string_view{"gpu"} && cells::is_count_not_type(*value) && recorded_gpus(row) == 0)
                row.in_cell(quantity, [&] {
                    throw failure("'{}' is a number, not a GPU type; if it counts GPUs, rename the column to gpus",
                                  *value);
                });
            const auto [known, is_new] = values_.try_emplace(quantity, *value);
            if (is_new || known->second == *value) continue;
            row.in_cell(quantity, [&first = known->second, &value] {
                throw failure("rows mix '{}' and '{}'; select one with [where] in the --columns file", first, *value);
            });
        }
    }

    /// Empty if no row names it.
    std::string gpu() const { return values_.contains("gpu") ? values_.at("gpu") : ""; }

private:
    std::map<std::string, std::string> values_;
};

// Whether the row lacks a time, but has memory.
bool has_only_memory(const RowReader& row) {
    const auto memory = row.text("memory");
    if (!memory || cells::lacks_number(*memory)) return false;
    return std::ranges::all_of(
        time_quantities, [&](const char* quantity) { return cells::is_missing(row.text(quantity).value_or("")); });
}

// The samples of a step, which `text` says.
double checked_samples(double samples, std::string_view text) {
    if (samples < 1 || samples > max_samples) throw failure("a step has 1 to 2^24 samples, not {}", text);
    return samples;
}

// The samples of a step.
double batch_of(const RowReader& row, const RunDefaults& defaults) {
    const auto batch =
        row.read("batch", [](std::string_view text) { return checked_samples(cells::positive(text), text); });
    if (!batch)
        if (const auto product = batch_of_passes(row, recorded_gpus(row)))
            return row.in_cell("micro_batch", [&] { return checked_samples(*product, fmt::format("{:g}", *product)); });
    if (!batch && !defaults.batch)
        row.in_cell("batch", [] { throw failure("neither the row nor the model has a batch (samples per step)"); });
    return batch.value_or(defaults.batch.value_or(1));
}

// `time` is the quantity from which the seconds are computed; if unset, seconds are 0.
Run run_of(const RowReader& row, const std::optional<std::string>& time, const RunDefaults& defaults,
           std::string label) {
    Run run;
    run.label = std::move(label);
    run.batch = batch_of(row, defaults);
    run.plan = plan_of(row, recorded_gpus(row), run.batch);
    run.allocation = {hosts_of(row, run.plan.gpus()), defaults.gpus_per_nic,
                      row.read("cpus", cells::positive).value_or(defaults.cpus)};
    row.in_cell("plan", [&] { (void)routes_of(run.plan, run.allocation); });
    check_sequence(row, defaults.sequence);
    if (time) run.seconds = seconds_of(row, *time, run, defaults);
    if (!cells::lacks_number(row.text("memory").value_or("")))
        run.memory =
            row.read("memory", [&](const std::string& text) { return cells::gpu_bytes(text, row.unit("memory")); });
    return run;
}

void check_columns(const Table& table, const ColumnMap& columns) {
    const auto missing = [&](std::string_view name) {
        return failure("{}:1: there is no column '{}'; it has {}", table.file, name, fmt::join(table.columns, ", "));
    };
    if (table.columns.empty()) throw failure("{}: contains no runs", table.file);
    if (table.columns.size() == 1 && table.columns[0].find("  ") != std::string::npos)
        throw failure("{}: its columns are separated by blanks; use commas, semicolons, tabs or bars", table.file);
    for (const auto& [quantity, source] : columns.sources)
        if (!source.column.empty() && table.find(source.column) == Table::npos) throw missing(source.column);
    for (const std::string& column : columns.ignored)
        if (table.find(column) == Table::npos) throw missing(column);
    for (const auto& [column, value] : columns.where)
        if (table.find(column) == Table::npos) throw missing(column);
    if (std::ranges::none_of(time_quantities, [&](const char* quantity) { return columns.sources.contains(quantity); }))
        throw failure(
            "{}:1: there is no column 'seconds', 'rate' or 'tokens_per_second'; it has {}; --columns can map one",
            table.file, fmt::join(table.columns, ", "));
}

// What the columns that default_columns() did not recognize mean. Throws Error where one of them may hold something
// that a run cannot do without.
void check_unknown(const Table& table, const ColumnMap& columns, RunRows& found) {
    for (const auto& [quantity, source] : columns.sources)
        if (source.column != quantity) found.aliases.emplace_back(source.column, quantity);
    constexpr std::array<const char*, 7> degrees{"plan", "dp", "tp", "pp", "cp", "fsdp", "zero"};
    const bool has_plan =
        std::ranges::any_of(degrees, [&](const char* name) { return columns.sources.contains(name); });
    for (const std::string& column : table.columns) {
        const auto is_this = [&](const auto& source) { return source.second.column == column; };
        if (std::ranges::any_of(columns.sources, is_this)) continue;
        if (const std::string_view meaning = doubtful_meaning(column);
            !meaning.empty() && !columns.sources.contains(std::string{meaning.substr(0, meaning.find_first_of(" ,"))}))
            throw meaning == tokens_of_batch
                ? failure(
                      "{}:1: column '{}' counts tokens; divide them by the tokens of a sample in a column batch, or "
                      "list it in a --columns file under ignore",
                      table.file, column)
                : failure("{}:1: column '{}' may hold {}; map it in a --columns file, or list it there under ignore",
                          table.file, column, meaning);
        if (!has_plan)
            throw failure(
                "{}:1: unknown column '{}', and no column with a plan; {} are known, and --columns can map others",
                table.file, column, fmt::join(run_quantities(), ", "));
        found.unknown_columns.push_back(column);
    }
}

// Whether the row has a time or memory, and no status of a failure.
bool has_run(const RowReader& row) {
    return !cells::has_failed(row.text("status").value_or("")) && (time_quantity(row) || has_only_memory(row));
}

bool is_selected(const Table& table, const ColumnMap& columns, const Table::Row& row) {
    return std::ranges::all_of(columns.where,
                               [&](const auto& rule) { return row.cells[table.find(rule.first)] == rule.second; });
}

}  // namespace

std::optional<double> common_sequence(const Table& table, const ColumnMap& given) {
    const ColumnMap columns = given.is_default ? given : with_standard_columns(given, table);
    check_columns(table, columns);
    std::optional<double> common;
    for (const Table::Row& row : table.rows) {
        const RowReader reader{table, columns, row};
        if (!is_selected(table, columns, row) || !has_run(reader)) continue;
        const auto tokens = reader.read("sequence_length", cells::positive);
        if (common && tokens && *common != *tokens)
            reader.in_cell("sequence_length", [&] {
                throw failure("rows mix {:g} and {:g} tokens per sample; select one with [where] in the --columns file",
                              *common, *tokens);
            });
        if (tokens) common = tokens;
    }
    return common;
}

RunRows read_run_rows(const Table& table, const ColumnMap& given, const RunDefaults& defaults) {
    const ColumnMap columns = given.is_default ? given : with_standard_columns(given, table);
    check_columns(table, columns);
    RunRows found;
    found.has_status = columns.sources.contains("status");
    if (given.is_default) check_unknown(table, columns, found);
    SameModelAndGpu model_and_gpu;
    for (const Table::Row& row : table.rows) {
        if (!is_selected(table, columns, row)) continue;
        const RowReader reader{table, columns, row};
        const std::string place = fmt::format("{}:{}", table.file, row.line);
        const auto label = reader.text("label");
        const auto time = time_quantity(reader);
        if (!has_run(reader)) {
            found.failed.push_back(place);
            continue;
        }
        model_and_gpu.check(reader);
        Run run = run_of(reader, time, defaults, label ? fmt::format("{} ({})", place, *label) : place);
        if (!time) {
            found.memory_runs.push_back(std::move(run));
            continue;
        }
        if (cells::counts_flops(reader.unit(*time))) ++found.from_flops;
        if (reader.read("ep", cells::positive).value_or(1) > 1) ++found.expert_parallel;
        found.runs.push_back(std::move(run));
    }
    found.gpu = model_and_gpu.gpu();
    return found;
}

std::vector<Run> read_runs(const Table& table, const ColumnMap& columns, const RunDefaults& defaults) {
    return read_run_rows(table, columns, defaults).runs;
}

}  // namespace tpx::formats
