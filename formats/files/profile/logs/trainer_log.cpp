// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/framework_log.hpp"
#include "formats/files/profile/logs/log_text.hpp"

#include <array>
#include <cmath>
#include <string_view>
#include <utility>

// The Trainer of Hugging Face logs its batch sizes, draws a bar, " 33%|███▎      | 4/12 [00:00<00:00,  9.41it/s]", and
// prints "{'train_runtime': '1.029', ...}" at the end.

namespace tpx::formats {
namespace {

// A bar's rate is an average in which each update counts for this share and the one before it for the rest.
constexpr double bar_smoothing = 0.3;

// The number of updates after which a first update of `steps` steps adds less than `negligible` to the average.
double updates_until_steady(double steps) {
    constexpr double negligible = 0.005;
    return std::ceil(std::log(bar_smoothing * steps / negligible) / -std::log(1 - bar_smoothing));
}

// The rates of one progress bar. After a restart from a checkpoint, the bar's first update counts all steps before the
// restart, so that its rates are too high until this update hardly counts.
class BarRates {
public:
    void add(double step, double seconds, bool is_resumed, LogRun& run) {
        if (step < last_) *this = {};  // another bar
        if (updates_ == 0 || step > last_) ++updates_;
        if (updates_ == 1) {
            first_ = last_ = step;
            first_seconds_ = seconds;
            if (run.reason().empty())
                run.set_reason(
                    "no step times: the progress bar was updated only once, and the log has no 'train_runtime'");
            return;
        }
        if (updates_ == 2 && step > last_) begin(step, is_resumed, run);
        last_ = step;
        if (updates_ > dropped_) return run.add_step(StepReport::bar, step, seconds);
        run.set_reason(
            "no step times: the progress bar shows too few steps after the restart, and the log has no "
            "'train_runtime'");
    }

    // The steps before a restart that the first update counts; 0 if there was none.
    double steps_before() const { return dropped_ > 0 ? first_ - 1 : 0; }

private:
    // At the second update: decides whether the first one counts steps of an earlier run.
    void begin(double step, bool is_resumed, LogRun& run) {
        constexpr double least_jump = 10, usual_growth = 5;
        const bool jumped = first_ >= least_jump && first_ > usual_growth * (step - last_);
        if (is_resumed || jumped)
            dropped_ = updates_until_steady(first_);
        else
            run.add_step(StepReport::bar, first_, first_seconds_);
    }

    double first_ = 0, first_seconds_ = 0;  // of the first update
    double last_ = 0;                       // step
    double updates_ = 0;
    double dropped_ = 0;  // updates whose rates are not used
};

class TrainerLog final : public FrameworkLog {
public:
    bool starts_run(const LogLine& line) const override {
        return line.text.find("***** Running training *****") != line.text.npos;
    }

    void read(const LogLine& line, LogRun& run) override {
        if (starts_run(line)) forget_attempt();
        for (const auto& [mark, field] : marks)
            if (const auto count = number_after(line.text, mark)) run.set(field, *count);
        if (const auto seconds = number_after(line.text, "'eval_runtime':")) evaluation_ += *seconds;
        for (const std::string_view mark : {"Continuing training from global step", " and global step"})
            if (const auto step = number_after(line.text, mark)) resumed_at_ = *step;
        if (const auto runtime = number_after(line.text, "'train_runtime':")) {
            runtime_ = *runtime;
            rate_ = number_after(line.text, "'train_steps_per_second':").value_or(0);
            set_mean(run);
        }
        const bool is_named = line.text.starts_with("Epoch") || line.text.starts_with("Train");
        if (is_named || line.text.find('|') == line.text.npos) return;
        const auto seconds = seconds_of_bar(line.text);
        const auto step = step_of_bar(line.text);
        if (seconds && step && is_bar_of_training(line.text, run)) add_bar(*step, *seconds, run);
    }

private:
    using enum LogField;

    // Of an attempt that failed before a step time was known, nothing counts for the next one.
    void forget_attempt() {
        rates_ = {};
        runtime_ = rate_ = resumed_at_ = evaluation_ = first_total_ = 0;
    }

    void add_bar(double step, double seconds, LogRun& run) {
        rates_.add(step, seconds, resumed_at_ > 0, run);
        if (runtime_ > 0) set_mean(run);  // the last bar may show that the job was resumed
    }

    void set_mean(LogRun& run) const {
        if (const double steps = timed_steps(run); steps > 0)
            run.set_mean_seconds((runtime_ - evaluation_) / steps, steps);
    }

    // The steps of train_runtime. Versions of the Trainer differ in whether train_steps_per_second counts the steps
    // before a restart.
    double timed_steps(const LogRun& run) const {
        constexpr double least_rate = 0.1;     // lower rates have too few digits
        constexpr double resumed_share = 0.9;  // a larger share of the total may be all steps at a rounded rate
        const double total = run.number(total_steps, first_total_), counted = std::round(rate_ * runtime_);
        if (resumed_at_ == 0 && rate_ >= least_rate && counted < resumed_share * total) return counted;
        return total - (resumed_at_ > 0 ? resumed_at_ : rates_.steps_before());
    }

    // Bars of evaluation have no name either, but another total; the first bar is of training.
    bool is_bar_of_training(std::string_view line, const LogRun& run) {
        const double total = total_of_bar(line).value_or(0);
        if (first_total_ == 0) first_total_ = total;
        return total == run.number(total_steps, first_total_);
    }

    static constexpr std::array<std::pair<std::string_view, LogField>, 5> marks{
        {{"Total train batch size (w. parallel, distributed & accumulation) =", batch},
         {"Gradient Accumulation steps =", accumulation},
         {"Instantaneous batch size per device =", micro_batch},
         {"Total optimization steps =", total_steps},
         {"Number of trainable parameters =", parameters}}};

    BarRates rates_;
    double runtime_ = 0, rate_ = 0;  // train_runtime and train_steps_per_second; 0: not yet known
    double resumed_at_ = 0;          // step
    double evaluation_ = 0;          // seconds, which train_runtime includes
    double first_total_ = 0;         // of the bars; 0: there was none
};

}  // namespace

std::unique_ptr<FrameworkLog> trainer_log() { return std::make_unique<TrainerLog>(); }

}  // namespace tpx::formats
