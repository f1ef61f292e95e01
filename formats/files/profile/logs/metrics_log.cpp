// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/framework_log.hpp"
#include "formats/files/profile/logs/log_text.hpp"
#include "formats/files/profile/logs/metric_record.hpp"
#include "formats/files/profile/logs/metric_times.hpp"
#include "formats/files/profile/logs/step_clock.hpp"
#include "formats/files/profile/table_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Trackers store metrics as lines of JSON or as CSV: W&B's history, as wandb-history.jsonl, as the rows of its API or
// as an export of its pages; Lightning's metrics.csv; LLaMA-Factory's trainer_log.jsonl; "Wall time,Step,Value" of
// TensorBoard; "key,value,timestamp,step" of MLflow. The names of metrics are those
// of the framework: Megatron-LM and Megatron Bridge {"iteration-time": 1.53, "batch-size": 64, "_step": 20}, NeMo
// "train_step_timing in s", torchtitan "time_metrics/end_to_end(s)" and "throughput(tps)", Composer, Megatron Bridge
// and Lightning's ThroughputMonitor "throughput/tokens_per_sec".

namespace tpx::formats {
namespace {

// The step of a record, the surest name first. The last one counts records, which are steps only where a framework
// passes its step to W&B.
constexpr std::array<std::string_view, 9> step_names{
    "global_step", "trainer/global_step", "current_steps", "iteration", "step", "Step",
    "_Step",       "trainer/step",        "_step"};

constexpr double gibibyte = 1 << 30;
constexpr std::array<std::pair<std::string_view, double>, 5> memories{{{"mem-reserved-bytes", 1},
                                                                       {"max_memory_reserved", 1},
                                                                       {"peak_memory_usage", 1},
                                                                       {"memory/max_reserved(GiB)", gibibyte},
                                                                       {"vram_reserved", gibibyte}}};

constexpr std::string_view no_times =
    "no step times in its metrics: found neither step_time, iteration-time, train_step_timing in s, "
    "time_metrics/end_to_end(s), throughput(tps), throughput/tokens_per_sec, throughput/samples_per_sec, elapsed_time "
    "with current_steps, _runtime with the trainer's global_step, nor Wall time with Step; log one of these, or pass "
    "the job's console log";

// The columns of a table that has a row for each value: MLflow has "key" or "metric", TensorBoard "tag".
constexpr std::array<std::string_view, 5> metric_columns{"key", "metric", "tag", "metric_name", "name"};

// Whether a column is a step, a time of day or a step time.
bool is_known(std::string_view name, MetricTimes& times) {
    return std::ranges::count(step_names, name) > 0 || name == "_runtime" || name == "Wall time" || times.find(name);
}

// The character that separates the cells of a header.
char separator_of_header(std::string_view line) {
    return std::ranges::max({',', ';', '\t'}, {}, [&](char c) { return std::ranges::count(line, c); });
}

class MetricsLog final : public FrameworkLog {
public:
    bool starts_run(const LogLine&) const override { return false; }

    void read(const LogLine& line, LogRun& run) override {
        if (is_trainer_state(line.text)) return;
        if (const auto record = json_record(line.text)) return add(*record, run);
        if (!std::exchange(is_begun_, true))
            read_header(line.whole, run);
        else if (!columns_.empty())
            read_row(line.whole, run);
    }

private:
    using enum LogField;

    void read_header(std::string_view line, LogRun& run) {
        separator_ = separator_of_header(line);
        std::vector<std::string> names = csv_cells(line, separator_);
        if (names.size() < 2) return;
        std::set<std::string, std::less<>> seen;
        bool has_known = false;
        for (std::string& name : names) {
            const std::string plain{metric_name(name)};
            if (!is_known(plain, times_)) continue;
            has_known = true;
            if (!seen.insert(plain).second)
                return run.set_reason(
                    fmt::format("several columns have '{}', as in an export of several runs; export "
                                "each run to a file of its own",
                                plain));
        }
        const bool has_step = std::ranges::any_of(step_names, [&](auto name) { return seen.contains(name); });
        if (!has_known || !has_step) return;  // a table of runs has times, but no steps
        for (std::string& name : names) columns_.emplace_back(metric_name(name));
        run.set_reason(no_times);
    }

    void read_row(std::string_view line, LogRun& run) {
        std::vector<std::string> cells = csv_cells(line, separator_);
        if (cells.size() != columns_.size()) return;
        MetricRecord record;
        for (std::size_t i = 0; i < cells.size(); ++i) {
            if (cells[i].empty()) continue;
            const bool may_have_comma = separator_ != ',' && cells[i].find(',') != std::string::npos;
            const auto number = may_have_comma ? plain_number(cells[i], ',') : std::nullopt;
            record.add(columns_[i], number ? *number : std::move(cells[i]));
        }
        for (const std::string_view column : metric_columns)  // a row for each value
            if (const std::string name = record.text(column); !name.empty() && record.has("value"))
                record.add(std::string{metric_name(name)}, record.text("value"));
        add(record, run);
    }

    static std::optional<double> step_of(const MetricRecord& record) {
        for (const std::string_view name : step_names)
            if (const auto step = record.number(name)) return step;
        return std::nullopt;
    }

    void add(const MetricRecord& record, LogRun& run) {
        const auto step = step_of(record);
        if (!step) return;
        is_begun_ = true;
        if (run.reason().empty()) run.set_reason(no_times);
        run.set_without_plan();
        read_batch(record, *step, run);
        if (const auto count = record.number("world-size")) run.set(gpus, *count);
        for (const auto& [name, unit] : memories)
            if (const auto size = record.number(name)) run.add_memory(*size * unit);
        times_.read(record, *step, run);
        clock_.read(record, run);
    }

    // Steps whose batch still grows are not those of the run.
    void read_batch(const MetricRecord& record, double step, LogRun& run) {
        // nanotron's global_batch_size is in tokens, or in samples in versions until 2024.
        const bool is_ambiguous = record.has("tokens_per_sec_per_gpu") && record.has("consumed_tokens");
        for (const char* name : {"batch-size", "global_batch_size"})
            if (const auto samples = record.number(name); samples && !is_ambiguous) {
                if (run.has_steps() && *samples != run.number(batch)) run.forget_steps();
                run.set_whole(batch, *samples);
            }
        const auto samples = record.number("consumed_samples");
        if (!samples || run.has(batch)) return;
        if (consumed_ && step > consumed_->first && *samples > consumed_->second)
            run.set_whole(batch, (*samples - consumed_->second) / (step - consumed_->first));
        consumed_ = {step, *samples};
    }

    bool is_begun_ = false;  // the header of CSV is the first line
    std::vector<std::string> columns_;
    char separator_ = ',';
    MetricTimes times_;
    std::optional<std::pair<double, double>> consumed_;  // step and samples of the last record
    StepClock clock_;
};

}  // namespace

std::unique_ptr<FrameworkLog> metrics_log() { return std::make_unique<MetricsLog>(); }

}  // namespace tpx::formats
