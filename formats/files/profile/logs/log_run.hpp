// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/logs/log_fields.hpp"
#include "formats/files/profile/logs/log_steps.hpp"

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// What a log reports about steps, the most precise first.
enum class StepReport {
    seconds,
    samples_per_second,
    tokens_per_second,
    tokens_per_gpu,
    parts,
    clock,  ///< seconds between records
    bar,
    trained_tokens_per_gpu,  ///< tokens per second, counting only those that contribute to the loss
    rounded
};
inline constexpr std::size_t step_report_count = 9;

/// How long steps took.
struct StepTimes {
    StepReport report = StepReport::seconds;
    double median = 0;  ///< seconds, samples or tokens per second, or tokens per second per GPU, depending on
                        ///< `report`
    std::size_t used = 0;
    std::size_t dropped = 0;
};

/// One run of a training job, as the readers of the frameworks fill it line by line.
class LogRun {
public:
    void set(LogField field, std::string_view text);
    void set(LogField field, double number);
    /// Sets `field` if `number` is a whole number; otherwise the field stays as it is.
    void set_whole(LogField field, double number);
    /// Sets `field` unless it is set already.
    void set_first(LogField field, std::string_view text);
    void forget(LogField field) { values_.erase(field); }
    bool has(LogField field) const { return values_.contains(field); }
    std::string text(LogField field) const;
    /// `otherwise` where the field is unknown or not a number.
    double number(LogField field, double otherwise = 0) const;
    const std::map<LogField, std::string>& values() const { return values_; }

    /// From now on lines are of `stream`, what a launcher puts before the lines of one rank. Only the first stream that
    /// reports steps counts.
    void set_stream(std::string_view stream) { stream_ = stream; }
    /// Adds a report about step `number`, or about the next step. A lower number than the last one means that the job
    /// restarted; the same number replaces the last report, as when a progress bar is redrawn.
    void add_step(StepReport report, std::optional<double> number, double value);
    /// Sets the mean of all steps, which counts only without any report; `steps` is 0 if unknown.
    void set_mean(StepReport report, double value, double steps);
    void set_mean_seconds(double seconds, double steps) { set_mean(StepReport::seconds, seconds, steps); }
    /// Sets why the run has no step times, if it turns out that it has none: "no step times: ...".
    void set_reason(std::string_view reason) { reason_ = reason; }
    const std::string& reason() const { return reason_; }
    /// Marks that the log does not record degrees of parallelism, so that they do not default to 1.
    void set_without_plan() { is_without_plan_ = true; }
    bool is_without_plan() const;
    /// Memory in use on a GPU; the most counts.
    void add_memory(double bytes);
    void set_out_of_memory() { out_of_memory_ = true; }
    /// Forgets the steps so far, because they are not like those that follow.
    void forget_steps() { attempts_.assign(1, {}); }

    bool has_steps() const;
    double memory() const { return memory_; }
    bool is_out_of_memory() const { return out_of_memory_; }
    /// The steady steps of the most precise report; nothing if none of them is steady.
    std::optional<StepTimes> step_times() const;
    /// Number of reports about steps, including those during warm-up.
    std::size_t reports() const;

    /// True if all settings that affect the execution plan are equal, and model, number of parameters, GPU type and
    /// GPUs per host are equal where both runs record them.
    bool has_settings_of(const LogRun& other) const;
    /// Adds the steps, memory and missing settings of a run with the same settings.
    void merge(const LogRun& other);

private:
    using Attempt = std::array<std::vector<LoggedStep>, step_report_count>;

    std::map<LogField, std::string> values_;
    std::vector<Attempt> attempts_ = std::vector<Attempt>(1);  // each has a warm-up of its own
    std::optional<StepTimes> mean_;
    double memory_ = 0;
    bool out_of_memory_ = false;
    bool is_without_plan_ = false;
    std::string reason_;
    std::string stream_;
    std::optional<std::string> stream_of_steps_;
};

}  // namespace tpx::formats
