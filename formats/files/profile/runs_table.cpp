// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/runs_table.hpp"

#include "formats/files/profile/placement.hpp"
#include "formats/files/profile/runs_file.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/model/execution_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
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

// The number of GPUs on the command line; 0: none.
int gpus_of(const RunOverrides& overrides) {
    if (!overrides.plan.empty()) return parse_execution_plan(overrides.plan).gpus();
    if (overrides.placement.empty()) return overrides.gpus;
    const std::vector<int> hosts = parse_placement(overrides.placement);
    return std::reduce(hosts.begin(), hosts.end());
}

void apply(const RunOverrides& overrides, LogRun& run) {
    if (!overrides.model.empty()) run.set(LogField::model, overrides.model);
    if (!overrides.gpu.empty()) run.set(LogField::gpu, overrides.gpu);
    if (const int gpus = gpus_of(overrides); gpus > 0) {
        run.set(LogField::gpus, gpus);
        run.forget(LogField::dp);
    }
    if (overrides.per_host > 0) run.set(LogField::per_host, overrides.per_host);
    if (overrides.batch > 0) run.set(LogField::batch, overrides.batch);
    if (overrides.sequence_length > 0) run.set(LogField::sequence_length, overrides.sequence_length);
    if (overrides.plan.empty()) return;
    for (const LogField field : plan_fields) run.forget(field);
}

double model_parallel(const LogRun& run) {
    return run.number(LogField::tp, 1) * run.number(LogField::pp, 1) * run.number(LogField::cp, 1);
}

// "--gpus 6 is", as the subject of an error.
std::string gpus_text(const RunOverrides& overrides, const LogRun& run) {
    if (!overrides.placement.empty())
        return fmt::format("--on {} has {}, which {}", overrides.placement,
                           counted(std::uint64_t(gpus_of(overrides)), "GPU"), gpus_of(overrides) == 1 ? "is" : "are");
    return overrides.gpus > 0 ? fmt::format("--gpus {} is", overrides.gpus)
                              : run.text(LogField::gpus) + (run.text(LogField::gpus) == "1" ? " GPU is" : " GPUs are");
}

// The degrees that are known and not 1: "tp=4,pp=2".
std::string degrees_text(const LogRun& run) {
    using enum LogField;
    std::vector<std::string> degrees;
    for (const LogField degree : {dp, tp, pp, cp})
        if (run.number(degree, 1) > 1)
            degrees.push_back(
                fmt::format("{}={}", log_field_names[static_cast<std::size_t>(degree)], run.text(degree)));
    return fmt::format("{}", fmt::join(degrees, ","));
}

// The number of replicas and the number of GPUs, each from the other one.
void complete_gpus(LogRun& run, const RunOverrides& overrides, std::string_view label) {
    using enum LogField;
    const double count = run.number(gpus), others = model_parallel(run);
    const double samples = run.number(batch), each = run.number(micro_batch);
    if (run.is_without_plan()) return;
    if (!run.has(dp) && count > 0 && others > 0) {
        if (std::fmod(count, others) != 0)
            throw failure("{}: {} not divisible by {}; use a multiple of {:.0f}{}", label, gpus_text(overrides, run),
                          degrees_text(run), others, gpus_of(overrides) > 0 ? "" : " with --gpus");
        run.set(dp, count / others);
    } else if (!run.has(dp) && samples > 0 && each > 0 && others == 1) {
        run.set_whole(dp, samples / each / std::max(1.0, run.number(accumulation, 1)));
    }
    if (!run.has(gpus) && run.has(dp)) run.set(gpus, run.number(dp) * others);
    if (run.has(dp) && count > 0 && run.number(dp) * others != count)
        throw failure("{}: the log has {} GPUs, but its degrees {} need {:.0f} GPUs; pass the whole plan by --with",
                      label, run.text(gpus), degrees_text(run), run.number(dp) * others);
}

// The number of model chunks, from the layers of each.
void complete_chunks(LogRun& run, std::string_view label) {
    using enum LogField;
    const double all = run.number(layers), each = run.number(layers_per_chunk), stages = run.number(pp, 1);
    if (run.has(vpp) || !(all > 0) || !(each > 0) || !(stages > 0)) return;
    if (std::fmod(all, stages * each) != 0)
        throw failure("{}: {} layers are not divisible by pp={:.0f} stages with chunks of {:.0f}; pass --with", label,
                      run.text(layers), stages, each);
    run.set(vpp, all / stages / each);
}

// Sets fields that follow from others, and drops those that a plan does not need.
void complete(LogRun& run, const RunOverrides& overrides, std::string_view label) {
    using enum LogField;
    complete_gpus(run, overrides, label);
    complete_chunks(run, label);
    const double samples = run.number(batch), each = run.number(micro_batch);
    if (run.number(tp, 1) <= 1) run.forget(sequence);
    if (each > 0 && samples > 0) {  // passes or micro-batches follow from these
        run.forget(accumulation);
        run.forget(micro_batches);
    } else if (run.number(pp, 1) > 1 && run.has(accumulation) && !run.has(micro_batches)) {
        run.set(micro_batches, run.number(accumulation));
        run.forget(accumulation);
    }
    for (const LogField degree : {tp, pp, cp, ep, etp, vpp, accumulation, micro_batches})
        if (run.text(degree) == "1") run.forget(degree);
}

// Adds seconds per step or, if the samples per step are unknown, a rate.
void add_times(const StepTimes& times, const LogRun& run, Cells& cells) {
    const double samples = run.number(LogField::batch), count = run.number(LogField::gpus);
    const double tokens = samples * run.number(LogField::sequence_length);
    std::optional<double> seconds = times.median;
    if (times.report == StepReport::samples_per_second) {
        seconds = samples > 0 ? std::optional{samples / times.median} : std::nullopt;
        if (!seconds) cells["rate"] = fmt::format("{:g}", times.median);
    } else if (times.report == StepReport::tokens_per_second) {
        seconds = tokens > 0 ? std::optional{tokens / times.median} : std::nullopt;
        if (!seconds) cells["tokens_per_second"] = fmt::format("{:g}", times.median);
    } else if (times.report == StepReport::tokens_per_gpu || times.report == StepReport::trained_tokens_per_gpu) {
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
    explicit RowsOfLogs(const RunOverrides& overrides) : overrides_{overrides} {}

    void add(const TrainingLog& log) {
        const std::size_t before = rows_.size();
        for (std::size_t i = 0; i < log.runs.size(); ++i)
            add_run(log.runs[i], log.runs.size() == 1 ? log.file : fmt::format("{}, run {}", log.file, i + 1));
        if (rows_.size() > before) return;
        if (!is_training_log(log)) throw nothing_in(log);
        if (!nothing_) nothing_ = nothing_in(log);
        if (!is_skipped(log)) result_.without_steps.push_back(log.file);
    }

    RunsTable finish(std::span<const TrainingLog> logs) {
        if (rows_.empty() && nothing_) throw *nothing_;
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
        apply(overrides_, run);
        if (run.text(LogField::offload) == nvme_offload) return result_.on_nvme.push_back(label);
        if (overrides_.plan.empty()) complete(run, overrides_, label);
        const std::optional<StepTimes> times = run.step_times();
        if (!times && !run.is_out_of_memory()) {
            if (run.has_steps()) result_.short_runs.push_back(label);
            return;
        }
        if (times && times->report == StepReport::clock) result_.by_clock.push_back(label);
        if (times && times->report == StepReport::trained_tokens_per_gpu) result_.of_trained_tokens.push_back(label);
        if (times && run.is_out_of_memory()) result_.also_out_of_memory.push_back(label);
        Cells cells{{"label", label}};
        for (const auto& [field, value] : run.values())
            if (const auto index = static_cast<std::size_t>(field); index < log_column_count)
                cells[std::string{log_field_names[index]}] = value;
        if (!overrides_.plan.empty()) cells["plan"] = overrides_.plan;
        if (!overrides_.placement.empty()) {
            cells["placement"] = overrides_.placement;
            cells.erase("gpus");
            cells.erase("per_host");
        }
        if (run.memory() > 0) cells["memory"] = fmt::format("{:.0f}", run.memory());
        times ? add_times(*times, run, cells) : void(cells["seconds"] = "OOM");
        if (!has_time(cells))
            throw failure("{}: number of GPUs is unknown (the log reports tokens per second per GPU); pass --gpus",
                          label);
        result_.used += times ? times->used : 0;
        result_.dropped += times ? times->dropped : 0;
        rows_.push_back(std::move(cells));
    }

    // Whether a job wrote `log`, which may have crashed before its first step or before its first line.
    static bool is_training_log(const TrainingLog& log) {
        return log.is_empty || std::ranges::any_of(log.runs, [](const LogRun& run) {
                   return run.has_steps() || !run.values().empty() || !run.reason().empty();
               });
    }

    // Whether a note about a run of `log` says why the log has no row.
    static bool is_skipped(const TrainingLog& log) {
        return std::ranges::any_of(
            log.runs, [](const LogRun& run) { return run.has_steps() || run.text(LogField::offload) == nvme_offload; });
    }

    Error nothing_in(const TrainingLog& log) const {
        std::size_t most = 0;
        if (std::ranges::any_of(log.runs,
                                [](const LogRun& run) { return run.text(LogField::offload) == nvme_offload; }))
            return failure("{}: offloads to NVMe drives, which the throughput model does not cover", log.file);
        for (const LogRun& run : log.runs) most = std::max(most, run.reports());
        if (most > 0)
            return failure("{}: no step times after warm-up ({} report{} in all); log more steps, or log more often",
                           log.file, most, most == 1 ? "" : "s");
        for (const LogRun& run : log.runs)
            if (!run.reason().empty()) return failure("{}: {}", log.file, run.reason());
        return failure(
            "{}: not a training log: found no step times of Megatron-LM, Megatron Bridge, NeMo, torchtitan, DeepSpeed, "
            "PyTorch Lightning, Colossal-AI, torchtune, nanotron, LitGPT, Composer or Hugging Face's Trainer, and no "
            "metrics of W&B, TensorBoard, MLflow or LLaMA-Factory",
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
        note_missing("GPUs", "--gpus", [](const Cells& row) {
            return !row.contains("plan") && !row.contains("dp") && !row.contains("gpus");
        });
        note_missing("execution plan", "--with", [](const Cells& row) {
            return !row.contains("plan") && !row.contains("dp") && row.contains("gpus");
        });
        note_missing("GPUs per host", "--per-host", [](const Cells& row) {
            const auto gpus = row.find("gpus");
            return !row.contains("placement") && !row.contains("per_host") && gpus != row.end() && gpus->second != "1";
        });
        note_missing("samples per step", "--batch", lacks("batch"));
    }

    const RunOverrides& overrides_;
    std::vector<Cells> rows_;
    std::optional<Error> nothing_;  // of the first log without a row
    RunsTable result_;
};

std::string quoted(std::string cell) {
    if (cell.find_first_of(",;\t\"\n\r#") == cell.npos) return cell;
    for (std::size_t at = 0; (at = cell.find('"', at)) != cell.npos; at += 2) cell.insert(at, 1, '"');
    return '"' + cell + '"';
}

}  // namespace

RunsTable runs_table(std::span<const TrainingLog> logs, const RunOverrides& overrides) {
    RowsOfLogs rows{overrides};
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
