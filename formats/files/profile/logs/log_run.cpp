// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/log_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tpx::formats {
namespace {

constexpr double most_steps = 1e12;

// Whether a report is about all steps since the one before, not about one step.
bool are_averages(StepReport report) { return report != StepReport::samples_per_second && report != StepReport::parts; }

}  // namespace

void LogRun::set(LogField field, std::string_view text) { values_.insert_or_assign(field, std::string{text}); }

void LogRun::set(LogField field, double number) {
    if (number >= 0 && std::isfinite(number)) set(field, fmt::format("{:.0f}", number));
}

void LogRun::set_whole(LogField field, double number) {
    if (number == std::floor(number)) set(field, number);
}

bool LogRun::is_without_plan() const {
    using enum LogField;
    return is_without_plan_ && !has(dp) && !has(tp) && !has(pp);
}

void LogRun::set_first(LogField field, std::string_view text) { values_.try_emplace(field, text); }

std::string LogRun::text(LogField field) const {
    const auto found = values_.find(field);
    return found == values_.end() ? std::string{} : found->second;
}

double LogRun::number(LogField field, double otherwise) const {
    const auto found = values_.find(field);
    double number = otherwise;
    if (found != values_.end())
        std::from_chars(found->second.data(), found->second.data() + found->second.size(), number);
    return std::isfinite(number) ? number : otherwise;
}

void LogRun::add_step(StepReport report, std::optional<double> number, double value) {
    if (!(value > 0) || !std::isfinite(value) || (number && !(*number >= 0 && *number <= most_steps))) return;
    if (!stream_of_steps_) stream_of_steps_ = stream_;
    if (*stream_of_steps_ != stream_) return;
    const auto index = static_cast<std::size_t>(report);
    std::vector<LoggedStep>* steps = &attempts_.back()[index];
    const double last = steps->empty() ? 0 : steps->back().number;
    const double at = number.value_or(last + 1);
    if (!steps->empty() && at == last) {
        steps->back().value = value;
        return;
    }
    if (at < last) steps = &attempts_.emplace_back()[index];
    steps->push_back({at, value});
}

void LogRun::set_mean(StepReport report, double value, double steps) {
    if (!(value > 0) || !std::isfinite(value) || !(steps >= 0 && steps <= most_steps)) return;
    mean_ = StepTimes{report, value, static_cast<std::size_t>(steps), 0};
}

void LogRun::add_memory(double bytes) { memory_ = std::max(memory_, bytes); }

bool LogRun::has_steps() const {
    if (mean_) return true;
    return std::ranges::any_of(attempts_, [](const Attempt& attempt) {
        return std::ranges::any_of(attempt, [](const auto& steps) { return !steps.empty(); });
    });
}

std::optional<StepTimes> LogRun::step_times() const {
    for (std::size_t index = 0; index < step_report_count; ++index) {
        const auto report = static_cast<StepReport>(index);
        StepTimes times{report, 0, 0, 0};
        std::vector<double> values;
        for (const Attempt& attempt : attempts_) {
            const SteadySteps steady = steady_steps(attempt[index], are_averages(report));
            values.insert(values.end(), steady.values.begin(), steady.values.end());
            times.used += steady.used;
            times.dropped += steady.dropped;
        }
        if (values.empty()) continue;
        times.median = median(std::move(values));
        return times;
    }
    return mean_;
}

std::size_t LogRun::reports() const {
    std::size_t most = 0;
    for (const Attempt& attempt : attempts_)
        for (const auto& steps : attempt) most = std::max(most, steps.size());
    return most;
}

bool LogRun::has_settings_of(const LogRun& other) const {
    using enum LogField;
    for (const LogField field : {dp, tp, pp, cp, ep, etp, vpp, gpus, micro_batches, micro_batch, accumulation,
                                 recompute, zero, offload, sequence, batch, sequence_length, layers, layers_per_chunk})
        if (text(field) != other.text(field)) return false;
    // Some logs print these late or not at all.
    for (const LogField field : {model, parameters, gpu, per_host})
        if (has(field) && other.has(field) && text(field) != other.text(field)) return false;
    return true;
}

void LogRun::merge(const LogRun& other) {
    attempts_.insert(attempts_.end(), other.attempts_.begin(), other.attempts_.end());
    values_.insert(other.values_.begin(), other.values_.end());
    if (other.mean_) mean_ = other.mean_;
    memory_ = std::max(memory_, other.memory_);
    out_of_memory_ = out_of_memory_ || other.out_of_memory_;
}

}  // namespace tpx::formats
