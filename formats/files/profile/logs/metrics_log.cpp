// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/framework_log.hpp"
#include "formats/files/profile/logs/log_text.hpp"
#include "formats/files/profile/logs/metric_record.hpp"
#include "formats/files/profile/logs/step_clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Trackers store metrics as lines of JSON or as CSV: W&B's history, as wandb-history.jsonl, as the rows of its API or
// as an export of its pages; Lightning's metrics.csv; LLaMA-Factory's trainer_log.jsonl. The names of metrics are those
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

constexpr std::array<std::pair<std::string_view, StepReport>, 9> reports{{
    {"iteration-time", StepReport::seconds},
    {"train_step_timing in s", StepReport::seconds},
    {"time_metrics/end_to_end(s)", StepReport::seconds},
    {"throughput/samples_per_sec", StepReport::samples_per_second},
    {"samples_per_sec", StepReport::samples_per_second},
    {"throughput/tokens_per_sec", StepReport::tokens_per_second},
    {"throughput(tps)", StepReport::tokens_per_gpu},
    {"throughput/device/tokens_per_sec", StepReport::tokens_per_gpu},
    {"device/tokens_per_sec", StepReport::tokens_per_gpu},
}};

constexpr double gibibyte = 1 << 30;
constexpr std::array<std::pair<std::string_view, double>, 5> memories{{{"mem-reserved-bytes", 1},
                                                                       {"max_memory_reserved", 1},
                                                                       {"peak_memory_usage", 1},
                                                                       {"memory/max_reserved(GiB)", gibibyte},
                                                                       {"vram_reserved", gibibyte}}};

constexpr std::string_view no_times =
    "no step times in its metrics: found neither iteration-time, train_step_timing in s, time_metrics/end_to_end(s), "
    "throughput(tps), throughput/tokens_per_sec, throughput/samples_per_sec, elapsed_time with current_steps, nor "
    "_runtime with the trainer's global_step; log one of these, or pass the job's console log";

bool is_known(std::string_view name) {
    return std::ranges::count(step_names, name) > 0 ||
           std::ranges::count(reports, name, &decltype(reports)::value_type::first) > 0 || name == "_runtime";
}

class MetricsLog final : public FrameworkLog {
public:
    bool starts_run(const LogLine&) const override { return false; }

    void read(const LogLine& line, LogRun& run) override {
        if (const auto record = json_record(line.text)) return add(*record, run);
        if (!std::exchange(is_begun_, true))
            read_header(line.whole, run);
        else if (!columns_.empty())
            read_row(line.whole, run);
    }

private:
    using enum LogField;

    void read_header(std::string_view line, LogRun& run) {
        std::vector<std::string> names = csv_cells(line);
        if (names.size() < 2) return;
        std::set<std::string, std::less<>> seen;
        bool has_known = false;
        for (std::string& name : names) {
            const std::string plain{metric_name(name)};
            if (!is_known(plain)) continue;
            has_known = true;
            if (!seen.insert(plain).second)
                return run.set_reason(
                    fmt::format("several columns have '{}', as in an export of several runs; export "
                                "each run to a file of its own",
                                plain));
        }
        if (!has_known) return;
        for (std::string& name : names) columns_.emplace_back(metric_name(name));
        run.set_reason(no_times);
    }

    void read_row(std::string_view line, LogRun& run) {
        std::vector<std::string> cells = csv_cells(line);
        if (cells.size() != columns_.size()) return;
        MetricRecord record;
        for (std::size_t i = 0; i < cells.size(); ++i)
            if (!cells[i].empty()) record.add(columns_[i], std::move(cells[i]));
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
        for (const auto& [name, report] : reports)
            if (const auto value = record.number(name)) run.add_step(report, step, *value);
        clock_.read(record, run);
    }

    // Steps whose batch still grows are not those of the run.
    void read_batch(const MetricRecord& record, double step, LogRun& run) {
        for (const char* name : {"batch-size", "global_batch_size"})
            if (const auto samples = record.number(name)) {
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
    std::optional<std::pair<double, double>> consumed_;  // step and samples of the last record
    StepClock clock_;
};

}  // namespace

std::unique_ptr<FrameworkLog> metrics_log() { return std::make_unique<MetricsLog>(); }

}  // namespace tpx::formats
