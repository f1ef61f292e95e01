// SPDX-License-Identifier: Apache-2.0
#include "formats/profile/runs_table.hpp"

#include "formats/profile/runs_file.hpp"
#include "lib/core/error.hpp"
#include "lib/model/execution_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

namespace tpx::formats {
namespace {

using Cells = std::map<std::string, std::string, std::less<>>;

const std::vector<std::string>& all_columns() {
    static const std::vector<std::string> columns = [] {
        std::vector<std::string> names{"label"};
        names.insert(names.end(), log_field_names.begin(), log_field_names.begin() + log_column_count);
        for (const char* name :
             {"plan", "placement", "seconds", "rate", "tokens_per_second", "memory", "steps", "dropped_steps"})
            names.emplace_back(name);
        return names;
    }();
    return columns;
}

void apply(const GivenRunSettings& given, LogRun& run) {
    if (!given.model.empty()) run.set(LogField::model, given.model);
    if (!given.gpu.empty()) run.set(LogField::gpu, given.gpu);
    if (given.gpus > 0) {
        run.set(LogField::gpus, given.gpus);
        run.forget(LogField::dp);
    }
    if (given.per_host > 0) run.set(LogField::per_host, given.per_host);
    if (given.batch > 0) run.set(LogField::batch, given.batch);
    if (given.sequence_length > 0) run.set(LogField::sequence_length, given.sequence_length);
    if (given.plan.empty()) return;
    for (const LogField field : plan_fields) run.forget(field);
    run.set(LogField::gpus, parse_execution_plan(given.plan).gpus());
}

double model_parallel(const LogRun& run) {
    return run.number(LogField::tp, 1) * run.number(LogField::pp, 1) * run.number(LogField::cp, 1);
}

// What follows from other fields: replicas are the GPUs that are left; model chunks from the layers of each.
void complete(LogRun& run) {
    using enum LogField;
    const double samples = run.number(batch), each = run.number(micro_batch);
    if (!run.has(dp) && run.number(gpus) > 0)
        run.set(dp, run.number(gpus) / model_parallel(run));
    else if (!run.has(dp) && samples > 0 && each > 0 && model_parallel(run) == 1)
        run.set(dp, samples / each / std::max(1.0, run.number(accumulation, 1)));
    if (!run.has(gpus) && run.has(dp)) run.set(gpus, run.number(dp) * model_parallel(run));
    if (!run.has(vpp) && run.number(layers_per_chunk) > 0)
        run.set(vpp, run.number(layers) / run.number(pp, 1) / run.number(layers_per_chunk));
    if (run.number(tp, 1) <= 1) run.forget(sequence);
    if (each > 0 && samples > 0) {  // these say how many passes or micro-batches there are
        run.forget(accumulation);
        run.forget(micro_batches);
    } else if (run.number(pp, 1) > 1 && run.has(accumulation) && !run.has(micro_batches)) {
        run.set(micro_batches, run.number(accumulation));
        run.forget(accumulation);
    }
    for (const LogField degree : {tp, pp, cp, ep, etp, vpp, accumulation, micro_batches})
        if (run.text(degree) == "1") run.forget(degree);
}

// Seconds of a step or, where the samples of a step are unknown, a rate.
void add_times(const StepTimes& times, const LogRun& run, Cells& cells) {
    const double samples = run.number(LogField::batch), count = run.number(LogField::gpus);
    const double tokens = samples * run.number(LogField::sequence_length);
    std::optional<double> seconds = times.median;
    if (times.report == StepReport::samples_per_second) {
        seconds = samples > 0 ? std::optional{samples / times.median} : std::nullopt;
        if (!seconds) cells["rate"] = fmt::format("{:g}", times.median);
    } else if (times.report == StepReport::tokens_per_gpu) {
        seconds = tokens > 0 && count > 0 ? std::optional{tokens / times.median / count} : std::nullopt;
        if (!seconds && count > 0) cells["tokens_per_second"] = fmt::format("{:g}", times.median * count);
    }
    if (seconds) cells["seconds"] = fmt::format("{:g}", *seconds);
    if (seconds && samples > 0) cells["rate"] = fmt::format("{:g}", samples / *seconds);
    if (times.used == 0) return;
    cells["steps"] = std::to_string(times.used);
    cells["dropped_steps"] = std::to_string(times.dropped);
}

bool has_time(const Cells& cells) {
    return cells.contains("seconds") || cells.contains("rate") || cells.contains("tokens_per_second");
}

// Collects the rows of all logs.
class RowsOfLogs {
public:
    explicit RowsOfLogs(const GivenRunSettings& given) : given_{given} {}

    void add(const TrainingLog& log) {
        const std::size_t before = rows_.size();
        for (std::size_t i = 0; i < log.runs.size(); ++i)
            add_run(log.runs[i], log.runs.size() == 1 ? log.file : fmt::format("{}, run {}", log.file, i + 1));
        if (rows_.size() == before) throw nothing_in(log);
    }

    RunsTable finish(std::span<const TrainingLog> logs) {
        result_.table.file = logs.size() == 1 ? logs[0].file : "logs";
        for (const std::string& column : all_columns()) {
            const bool is_used = std::ranges::any_of(rows_, [&](const Cells& row) { return row.contains(column); });
            if (is_used) result_.table.columns.push_back(column);
        }
        for (const Cells& cells : rows_) {
            Table::Row row{result_.table.rows.size() + 1, {}};
            for (const std::string& column : result_.table.columns) {
                const auto cell = cells.find(column);
                row.cells.push_back(cell == cells.end() ? std::string{} : cell->second);
            }
            result_.table.rows.push_back(std::move(row));
        }
        find_missing();
        return std::move(result_);
    }

private:
    void add_run(LogRun run, const std::string& label) {
        apply(given_, run);
        complete(run);
        const std::optional<StepTimes> times = run.step_times();
        if (!times && !run.is_out_of_memory()) {
            if (run.has_steps()) result_.short_runs.push_back(label);
            return;
        }
        if (times && run.is_out_of_memory()) result_.also_out_of_memory.push_back(label);
        Cells cells{{"label", label}};
        for (const auto& [field, value] : run.values())
            if (const auto index = static_cast<std::size_t>(field); index < log_column_count)
                cells[std::string{log_field_names[index]}] = value;
        if (!given_.plan.empty()) cells["plan"] = given_.plan;
        if (!given_.placement.empty()) {
            cells["placement"] = given_.placement;
            cells.erase("gpus");
            cells.erase("per_host");
        }
        if (run.memory() > 0) cells["memory"] = fmt::format("{:.0f}", run.memory());
        times ? add_times(*times, run, cells) : void(cells["seconds"] = "OOM");
        if (!has_time(cells))
            throw failure("{}: reports tokens per second and GPU, but not how many GPUs; set --gpus", label);
        result_.used += times ? times->used : 0;
        result_.dropped += times ? times->dropped : 0;
        rows_.push_back(std::move(cells));
    }

    Error nothing_in(const TrainingLog& log) const {
        std::size_t most = 0;
        for (const LogRun& run : log.runs) most = std::max(most, run.reported_steps());
        if (most > 0)
            return failure(
                "{}: reports the time of {} step{} only; at least 3 are needed, because the first 2 are warm-up",
                log.file, most, most == 1 ? "" : "s");
        return failure(
            "{}: not a training log: found no step times of Megatron-LM, Megatron Bridge, NeMo, torchtitan, DeepSpeed, "
            "PyTorch Lightning or Hugging Face's Trainer",
            log.file);
    }

    void note_missing(std::string_view name, std::string_view option, auto&& is_missing) {
        const auto count = static_cast<std::size_t>(std::ranges::count_if(rows_, is_missing));
        if (count > 0) result_.missing.push_back({std::string{name}, std::string{option}, count});
    }

    void find_missing() {
        const auto lacks = [](const char* column) {
            return [column](const Cells& row) { return !row.contains(column); };
        };
        note_missing("model", "--model", lacks("model"));
        note_missing("GPU type", "--gpu", lacks("gpu"));
        note_missing("GPUs", "--gpus", [](const Cells& row) { return !row.contains("plan") && !row.contains("dp"); });
        note_missing("GPUs per host", "--per-host", [](const Cells& row) {
            const auto gpus = row.find("gpus");
            return !row.contains("placement") && !row.contains("per_host") && gpus != row.end() && gpus->second != "1";
        });
        note_missing("samples per step", "--batch", lacks("batch"));
    }

    const GivenRunSettings& given_;
    std::vector<Cells> rows_;
    RunsTable result_;
};

std::string quoted(std::string cell) {
    if (cell.find_first_of(",;\t\"\n\r#") == cell.npos) return cell;
    for (std::size_t at = 0; (at = cell.find('"', at)) != cell.npos; at += 2) cell.insert(at, 1, '"');
    return '"' + cell + '"';
}

}  // namespace

RunsTable runs_table(std::span<const TrainingLog> logs, const GivenRunSettings& given) {
    RowsOfLogs rows{given};
    for (const TrainingLog& log : logs) rows.add(log);
    return rows.finish(logs);
}

std::string csv_text(const Table& table) {
    std::string text = fmt::format("{}\n", fmt::join(table.columns, ","));
    for (const Table::Row& row : table.rows) {
        std::vector<std::string> cells;
        for (const std::string& cell : row.cells) cells.push_back(quoted(cell));
        text += fmt::format("{}\n", fmt::join(cells, ","));
    }
    return text;
}

}  // namespace tpx::formats
