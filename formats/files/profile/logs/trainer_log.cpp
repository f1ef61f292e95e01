// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/framework_log.hpp"
#include "formats/files/profile/logs/log_text.hpp"

#include <array>
#include <string_view>
#include <utility>

// The Trainer of Hugging Face logs its batch sizes, draws a bar, " 33%|███▎      | 4/12 [00:00<00:00,  9.41it/s]", and
// prints "{'train_runtime': '1.029', ...}" at the end.

namespace tpx::formats {
namespace {

class TrainerLog final : public FrameworkLog {
public:
    bool starts_run(const LogLine& line) const override {
        return line.text.find("***** Running training *****") != line.text.npos;
    }

    void read(const LogLine& line, LogRun& run) override {
        for (const auto& [mark, field] : marks)
            if (const auto count = number_after(line.text, mark)) run.set(field, *count);
        if (const auto seconds = number_after(line.text, "'eval_runtime':")) evaluation_ += *seconds;
        const auto runtime = number_after(line.text, "'train_runtime':");
        if (const auto step = number_after(line.text, "Continuing training from global step")) resumed_at_ = *step;
        const double steps = run.number(total_steps) - resumed_at_;
        if (runtime && steps > 0) run.set_mean_seconds((*runtime - evaluation_) / steps, steps);
        const bool is_named = line.text.starts_with("Epoch") || line.text.starts_with("Train");
        if (is_named || line.text.find('|') == line.text.npos) return;
        const auto seconds = seconds_of_bar(line.text);
        if (seconds && is_bar_of_training(line.text, run))
            run.add_step(StepReport::bar, step_of_bar(line.text), *seconds);
    }

private:
    using enum LogField;

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

    double resumed_at_ = 0;   // step
    double evaluation_ = 0;   // seconds, which train_runtime includes
    double first_total_ = 0;  // of the bars; 0: there was none
};

}  // namespace

std::unique_ptr<FrameworkLog> trainer_log() { return std::make_unique<TrainerLog>(); }

}  // namespace tpx::formats
