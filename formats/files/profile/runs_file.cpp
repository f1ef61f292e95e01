// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/runs_file.hpp"

#include "formats/files/profile/column_aliases.hpp"
#include "formats/files/profile/run_cells.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/units.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>

namespace tpx::formats {
namespace {

constexpr double most_samples = 1 << 24;

// The plan's words that have columns of their own, under the names that parse_execution_plan knows.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> plan_columns{{{"dp", "dp"},
                                                                                     {"tp", "tp"},
                                                                                     {"pp", "pp"},
                                                                                     {"cp", "cp"},
                                                                                     {"vpp", "vpp"},
                                                                                     {"micro_batches", "mb"},
                                                                                     {"accumulation", "ga"},
                                                                                     {"recompute", "recompute"},
                                                                                     {"zero", "zero"}}};

// Reads the quantities of one row; what it throws names the row and the column.
class RowReader {
public:
    RowReader(const Table& table, const ColumnMap& columns, const Table::Row& row)
        : table_{table}, columns_{columns}, row_{row} {}

    // What the row says of `quantity`, after the map's values; nothing when it says nothing.
    std::optional<std::string> text(const std::string& quantity) const {
        const auto found = columns_.sources.find(quantity);
        if (found == columns_.sources.end()) return std::nullopt;
        const ColumnSource& source = found->second;
        const std::string cell = source.column.empty() ? source.value : row_.cells[table_.find(source.column)];
        const auto meaning = source.values.find(cell);
        if (meaning != source.values.end()) return meaning->second;
        if (cell.empty()) return std::nullopt;
        return source.digits.empty() ? cell : spread_digits(source, cell);
    }

    template <class Read>
    auto read(const std::string& quantity, Read&& read_text) const -> std::optional<decltype(read_text(""))> {
        const std::optional<std::string> cell = text(quantity);
        if (!cell) return std::nullopt;
        return in_cell(quantity, [&] { return read_text(*cell); });
    }

    // Runs `body`; its Error is prefixed with the row and the column of `quantity`, and the exit is 1.
    template <class Body>
    auto in_cell(const std::string& quantity, Body&& body) const {
        try {
            return body();
        } catch (const Error& error) {
            const auto found = columns_.sources.find(quantity);
            const bool named = found != columns_.sources.end() && !found->second.column.empty();
            throw bad_cell(table_, row_, named ? found->second.column : quantity, "{}", error.what());
        }
    }

    const std::string& unit(const std::string& quantity) const { return columns_.sources.at(quantity).unit; }

private:
    // "248" with digits pp, tp, dp: "pp=2,tp=4,dp=8"; with one key for all of them, "+" between the digits.
    std::string spread_digits(const ColumnSource& source, const std::string& cell) const {
        std::string text;
        const bool same = source.digits.size() == 1;
        if (cell.find_first_not_of("0123456789") != cell.npos || (!same && cell.size() != source.digits.size()))
            throw bad_cell(table_, row_, source.column, "'{}' is no {}", cell,
                           same ? "row of digits" : fmt::format("{} digits", source.digits.size()));
        for (std::size_t i = 0; i < cell.size(); ++i) {
            if (i > 0) text += same ? '+' : ',';
            text += same ? std::string{cell[i]} : fmt::format("{}={}", source.digits[i], cell[i]);
        }
        return text;
    }

    const Table& table_;
    const ColumnMap& columns_;
    const Table::Row& row_;
};

constexpr std::array<const char*, 3> time_quantities{"seconds", "rate", "tokens_per_second"};

// The quantity that has the time of the row; none if it did not run.
std::optional<std::string> time_quantity(const RowReader& row) {
    for (const char* quantity : time_quantities)
        if (!cells::is_no_time(row.text(quantity).value_or(""))) return quantity;
    return std::nullopt;
}

// Seconds of a step, from a time or from a rate.
double seconds_of(const RowReader& row, const std::string& quantity, double batch, double sequence) {
    const double value = *row.read(quantity, cells::positive);
    return row.in_cell(quantity, [&] {
        const std::string& unit = row.unit(quantity);
        const double seconds = quantity == "seconds" ? cells::seconds_in(unit, value)
                               : quantity == "rate"  ? cells::seconds_at(unit, value, batch, sequence)
                                                     : cells::seconds_at("tokens/s", value, batch, sequence);
        if (seconds > 1e5 || seconds < 1e-6)
            throw failure("a step of {:g} s cannot be right: is it in another unit?", seconds);
        return seconds;
    });
}

// With samples of a micro-batch in place of their number: the micro-batches of a pipeline, else passes.
void set_micro_batches(ExecutionPlan& plan, double samples, double batch) {
    const double passes = batch / plan.dp / samples;
    if (passes != std::floor(passes) || passes < 1 || passes > most_samples)
        throw failure("{} sample{} over {} are no whole number of micro-batches of {}", batch, batch == 1 ? "" : "s",
                      counted(std::uint64_t(plan.dp), "replica"), samples);
    (plan.pp > 1 ? plan.micro_batches : plan.accumulation) = static_cast<int>(passes);
}

// Puts "dp=*", "ga=*" and "mb=*" as what is left: all GPUs, and one sample a pass.
ExecutionPlan complete_plan(std::string text, int gpus, double batch) {
    const auto take = [&](std::string_view word) {
        const std::size_t at = text.find(word);
        if (at == text.npos) return false;
        text.erase(at, word.size());
        return true;
    };
    const bool all = take("dp=*"), singly = take("ga=*"), micro = take("mb=*");
    for (std::size_t at = 0; (at = text.find(",,")) != text.npos;) text.erase(at, 1);
    if (text.ends_with(',')) text.pop_back();
    if (text.starts_with(',')) text.erase(0, 1);
    ExecutionPlan plan = text.empty() ? ExecutionPlan{} : parse_execution_plan(text);
    if (all) {
        if (gpus == 0) throw failure("dp=* needs a placement or a number of GPUs");
        const int others = plan.gpus() / plan.dp;
        if (gpus % others != 0)
            throw failure("{} {} not divisible by {}", counted(std::uint64_t(gpus), "GPU"), gpus == 1 ? "is" : "are",
                          others);
        plan.dp = gpus / others;
    }
    const int local = static_cast<int>(std::ceil(batch / plan.dp));
    if (singly) plan.accumulation = local;
    if (micro) plan.micro_batches = local;
    return plan;
}

std::string plan_text(const RowReader& row) {
    std::string text = row.text("plan").value_or("");
    for (const auto& [quantity, word] : plan_columns)
        if (const auto cell = row.text(std::string{quantity}))
            text += fmt::format(",{}={}", word, quantity == "recompute" ? cells::recompute_word(*cell) : *cell);
    if (const auto shards = row.text("fsdp"); shards && *shards != "1")
        text += row.text("dp") ? ",zero=3" : fmt::format(",dp={},zero=3", *shards);
    if (cells::is_true(row.text("offload").value_or(""))) text += ",offload";
    if (cells::is_true(row.text("sequence").value_or(""))) text += ",sp";
    return text;
}

// The hosts: as placed, or `gpus` filled into hosts of `per_host`, or one host.
std::vector<int> hosts_of(const RowReader& row) {
    if (const auto placed = row.read("placement", [](std::string_view text) { return parse_placement(text); }))
        return *placed;
    int left = row.read("gpus", cells::gpu_count).value_or(0);
    const int each = row.read("per_host", cells::gpu_count).value_or(left);
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
    void check(const RowReader& row, std::string_view place) {
        for (const char* quantity : {"model", "gpu"}) {
            const auto value = row.text(quantity);
            if (!value) continue;
            const auto [known, is_new] = values_.try_emplace(quantity, *value);
            if (!is_new && known->second != *value)
                throw failure("{}: column '{}': rows mix '{}' and '{}'; select one with [where] in the --columns file",
                              place, quantity, known->second, *value);
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
    if (!memory || cells::is_no_time(*memory)) return false;
    return std::ranges::all_of(
        time_quantities, [&](const char* quantity) { return cells::is_missing(row.text(quantity).value_or("")); });
}

// `time` is the quantity that has the time; without one, seconds are 0.
Run run_of(const RowReader& row, const std::optional<std::string>& time, const RunDefaults& defaults,
           std::string label) {
    Run run;
    run.label = std::move(label);
    run.allocation = {hosts_of(row), defaults.gpus_per_nic, row.read("cpus", cells::positive).value_or(defaults.cpus)};
    const auto batch = row.read("batch", [](std::string_view text) {
        const double samples = cells::positive(text);
        if (samples < 1 || samples > most_samples) throw failure("a step has 1 to 2^24 samples, not {}", text);
        return samples;
    });
    if (!batch && !defaults.batch) row.in_cell("batch", [] { throw failure("neither the row nor the model has one"); });
    run.batch = batch.value_or(defaults.batch.value_or(1));
    const std::string words = plan_text(row);
    row.in_cell("plan", [&] {
        run.plan = complete_plan(words, run.allocation.total(), run.batch);
        if (run.allocation.gpus.empty()) run.allocation.gpus = {run.plan.gpus()};
        (void)routes_of(run.plan, run.allocation);
        if (const auto samples = row.read("micro_batch", cells::positive))
            set_micro_batches(run.plan, *samples, run.batch);
        if (run.plan.dp > run.batch)
            throw failure("{} replicas cannot share {} sample{}", run.plan.dp, run.batch, run.batch == 1 ? "" : "s");
    });
    check_sequence(row, defaults.sequence);
    if (time) run.seconds = seconds_of(row, *time, run.batch, defaults.sequence);
    run.memory =
        row.read("memory", [&](const std::string& text) { return cells::gpu_bytes(text, row.unit("memory")); });
    return run;
}

void check_columns(const Table& table, const ColumnMap& columns) {
    const auto missing = [&](std::string_view name) {
        return failure("{}:1: there is no column '{}'; it has {}", table.file, name, fmt::join(table.columns, ", "));
    };
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
            !meaning.empty() && !columns.sources.contains(std::string{meaning.substr(0, meaning.find(' '))}))
            throw failure("{}:1: column '{}' may hold {}; map it in a --columns file, or list it there under ignore",
                          table.file, column, meaning);
        if (!has_plan)
            throw failure(
                "{}:1: unknown column '{}', and no column with a plan; {} are known, and --columns can map others",
                table.file, column, fmt::join(run_quantities(), ", "));
        found.unknown_columns.push_back(column);
    }
}

}  // namespace

RunRows read_run_rows(const Table& table, const ColumnMap& given, const RunDefaults& defaults) {
    const ColumnMap columns = given.is_default ? given : with_standard_columns(given, table);
    check_columns(table, columns);
    RunRows found;
    if (given.is_default) check_unknown(table, columns, found);
    SameModelAndGpu model_and_gpu;
    for (const Table::Row& row : table.rows) {
        const bool counts = std::ranges::all_of(
            columns.where, [&](const auto& rule) { return row.cells[table.find(rule.first)] == rule.second; });
        if (!counts) continue;
        const RowReader reader{table, columns, row};
        const std::string place = fmt::format("{}:{}", table.file, row.line);
        const auto label = reader.text("label");
        const auto time = time_quantity(reader);
        if (!time && !has_only_memory(reader)) {
            found.failed.push_back(place);
            continue;
        }
        model_and_gpu.check(reader, place);
        Run run = run_of(reader, time, defaults, label ? fmt::format("{} ({})", place, *label) : place);
        if (!time) {
            found.memory_runs.push_back(std::move(run));
            continue;
        }
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
