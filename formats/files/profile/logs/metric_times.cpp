// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/metric_times.hpp"

#include "formats/files/profile/column_aliases.hpp"
#include "formats/files/profile/run_cells.hpp"
#include "lib/core/lower_case.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace tpx::formats {
namespace {

constexpr std::array<std::pair<std::string_view, StepReport>, 10> framework_metrics{{
    {"iteration-time", StepReport::seconds},
    {"train_step_timing in s", StepReport::seconds},
    {"time_metrics/end_to_end(s)", StepReport::seconds},
    {"throughput/samples_per_sec", StepReport::samples_per_second},
    {"samples_per_sec", StepReport::samples_per_second},
    {"throughput/tokens_per_sec", StepReport::tokens_per_second},
    {"throughput(tps)", StepReport::tokens_per_gpu},
    {"throughput/device/tokens_per_sec", StepReport::tokens_per_gpu},
    {"device/tokens_per_sec", StepReport::tokens_per_gpu},
    {"tokens_per_second_per_gpu", StepReport::trained_tokens_per_gpu},  // of torchtune
}};

// `name` without the group before it, as in "timing/step_time"; empty if it has none, or one of evaluations or of a
// part of the step.
std::string_view without_metric_group(std::string_view name) {
    const std::size_t end = name.find_last_of("/.");
    if (end == name.npos) return {};
    const std::string group = lower_case(name.substr(0, end));
    for (const std::string_view word : {"val", "eval", "test", "predict", "infer", "generat", "rollout", "optim",
                                        "forward", "backward", "data", "load", "checkpoint", "save"})
        if (group.find(word) != group.npos) return {};
    return name.substr(end + 1);
}

// How a metric whose name is also that of a column of a table of runs reports step times. Names that could also be the
// time since the start of the job, or tokens of one or of all GPUs, are not used, nor are the averages of Hugging
// Face's Trainer over a whole job, which count the steps before a restart.
std::optional<MetricTime> alias_time(std::string_view name) {
    constexpr std::array<std::string_view, 8> doubtful{
        "seconds",  "rate",    "tokens_per_second",        "time_s",
        "time_sec", "time_ms", "train_samples_per_second", "train_steps_per_second"};
    if (std::ranges::count(doubtful, name) > 0) return std::nullopt;
    const auto alias = known_alias(name);
    if (!alias) {
        const std::string_view plain = without_metric_group(name);
        return plain.empty() ? std::nullopt : alias_time(plain);
    }
    const auto& [quantity, source] = *alias;
    if (quantity == "seconds") return MetricTime{StepReport::seconds, cells::seconds_in(source.unit, 1)};
    if (source.unit == "samples/s") return MetricTime{StepReport::samples_per_second};
    if (source.unit == "steps/s") return MetricTime{StepReport::seconds, 1, true};
    if (source.unit == "tokens/s/GPU") return MetricTime{StepReport::tokens_per_gpu};
    return std::nullopt;
}

// LitGPT's "iter_time" is that of one pass; its records do not have the number of passes of a step.
bool is_pass_time(std::string_view name, const MetricRecord& record) {
    return name == "iter_time" && record.has("iter") && record.has("total_tokens");
}

}  // namespace

std::optional<MetricTime> MetricTimes::find(std::string_view name) {
    const auto* known = std::ranges::find(framework_metrics, name, &decltype(framework_metrics)::value_type::first);
    if (known != framework_metrics.end()) return MetricTime{known->second};
    const auto found = aliases_.find(name);
    if (found != aliases_.end()) return found->second;
    return aliases_.emplace(name, alias_time(name)).first->second;
}

void MetricTimes::read(const MetricRecord& record, double step, LogRun& run) {
    std::set<StepReport> reported;
    for (const auto& [name, report] : framework_metrics)
        if (const auto value = record.number(name)) {
            run.add_step(report, step, *value);
            reported.insert(report);
        }
    for (const auto& [name, text] : record.values()) {
        const auto time = find(name);
        const auto value = time ? record.number(name) : std::nullopt;
        if (value && *value > 0 && !is_pass_time(name, record) && reported.insert(time->report).second)
            run.add_step(time->report, step, time->value_of(*value));
    }
}

}  // namespace tpx::formats
