// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/step_clock.hpp"

#include "formats/files/profile/logs/log_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace tpx::formats {
namespace {

constexpr double least_span = 60;            // seconds, of times that are rounded to 1 s
constexpr double first_milliseconds = 3e11;  // since 1970, in 1979; as seconds, 9,500 years after 1970

// What records the time, and with it the step: W&B, whose own "_step" counts records; TensorBoard's CSV and tables made
// from its files; MLflow.
constexpr std::array<std::pair<std::string_view, std::array<std::string_view, 2>>, 5> clocks{
    {{"_runtime", {"global_step", "trainer/global_step"}},
     {"_timestamp", {"global_step", "trainer/global_step"}},
     {"Wall time", {"Step", "step"}},
     {"wall_time", {"step", "Step"}},
     {"timestamp", {"step", "global_step"}}}};

// Seconds of "1 day, 2:03:04", as Python prints a duration; nothing for another text.
std::optional<double> seconds_of_duration(std::string_view text) {
    double days = 0;
    if (contains(text, "day")) {
        days = number_after(text, "").value_or(0);
        text.remove_prefix(std::min(text.find(", ") + 2, text.size()));
    }
    const std::size_t first = text.find(':'), second = text.rfind(':');
    if (first == text.npos || first == second) return std::nullopt;
    const auto hours = number_after(text, ""), minutes = number_after(text.substr(first), ":"),
               seconds = number_after(text.substr(second), ":");
    if (!hours || !minutes || !seconds) return std::nullopt;
    return days * 86'400 + *hours * 3600 + *minutes * 60 + *seconds;
}

}  // namespace

// LLaMA-Factory has elapsed_time in whole seconds, and divides the tokens so far by the exact time if it counts tokens;
// after a restart, it counts those of before as well.
std::optional<StepClock::Moment> StepClock::moment_of(const MetricRecord& record) {
    if (const auto elapsed = seconds_of_duration(record.text("elapsed_time"))) {
        const auto step = record.number("current_steps");
        if (!step || !record.has("epoch")) return std::nullopt;  // of a prediction
        const double exact = record.number("total_tokens").value_or(0) / record.number("throughput").value_or(0);
        const bool is_exact = std::isfinite(exact) && exact >= *elapsed && exact < *elapsed + 1.01;
        return Moment{*step, is_exact ? exact : *elapsed, !is_exact};
    }
    for (const auto& [time, step_names] : clocks) {
        const auto seconds = record.number(time);
        if (!seconds) continue;
        const double unit = *seconds >= first_milliseconds ? 1e-3 : 1;
        const bool is_rounded = unit == 1 && *seconds == std::floor(*seconds);  // by W&B before 0.13
        for (const std::string_view name : step_names)
            if (const auto step = record.number(name)) return Moment{*step, *seconds * unit, is_rounded};
    }
    return std::nullopt;
}

void StepClock::read(const MetricRecord& record, LogRun& run) {
    const auto now = moment_of(record);
    if (!now) return;
    if (!last_ || now->step < last_->step || now->seconds < last_->seconds) {
        last_ = now;
        return forget();
    }
    if (now->step > last_->step) {  // between records of the same step, the job evaluates
        steps_ += now->step - last_->step;
        seconds_ += now->seconds - last_->seconds;
        is_rounded_ = is_rounded_ || now->is_rounded || last_->is_rounded;
    }
    last_ = now;
    if (!(steps_ > 0)) return;
    if (is_rounded_ && seconds_ < least_span)
        return run.set_reason(
            "no step times: its times are whole seconds, and it has less than 60 s of steps; log more steps, or set "
            "include_num_input_tokens_seen of LLaMA-Factory, with which it logs exact rates");
    run.add_step(StepReport::clock, now->step, seconds_ / steps_);
    forget();
}

}  // namespace tpx::formats
