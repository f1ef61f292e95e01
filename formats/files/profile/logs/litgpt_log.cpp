// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/framework_log.hpp"
#include "formats/files/profile/logs/log_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

// LitGPT prints "Epoch 1 | iter 8 step 2 | loss train: 1.034, val: n/a | iter time: 218.46 ms (step)": the time of one
// pass. "(step)" marks the last pass of a step. It waits for the GPU only in passes that it prints, so that a time also
// contains work of passes before it that are not printed. Fine-tuning prints every pass by default, pretraining only
// the last one of each step.

namespace tpx::formats {
namespace {

class LitgptLog final : public FrameworkLog {
public:
    bool starts_run(const LogLine& line) const override {
        return pass_of(line) == 1 || contains(line.text, "'train': TrainArgs(") || (last_ && has_batch(line.text));
    }

    void read(const LogLine& line, LogRun& run) override {
        constexpr double gigabyte = 1e9;
        const bool has_memory = line.text.starts_with("| - Memory Used") || line.text.starts_with("Memory used:");
        if (last_ && has_memory && contains(line.text, " GB"))
            if (const auto used = number_after(line.text, ":")) run.add_memory(*used * gigabyte);
        for (const char* mark : batch_marks)
            if (const auto count = number_after(line.text, mark)) samples_ = count;
        for (const char* mark : {"'micro_batch_size':", "micro_batch_size="})
            if (const auto count = number_after(line.text, mark)) samples_of_pass_ = count;
        if (const auto pass = pass_of(line)) add_pass(*pass, line.text, run);
    }

private:
    static constexpr std::array<const char*, 2> batch_marks{"'global_batch_size':", "global_batch_size="};

    static bool has_batch(std::string_view text) {
        return std::ranges::any_of(batch_marks, [&](const char* mark) { return contains(text, mark); });
    }

    static std::optional<double> pass_of(const LogLine& line) {
        if (!line.text.starts_with("Epoch ") || !contains(line.text, "| iter time:")) return std::nullopt;
        return number_after(line.text, "| iter ");
    }

    void add_pass(double pass, std::string_view text, LogRun& run) {
        const bool waited = last_ && pass == *last_ + 1;
        last_ = pass;
        if (!waited) {
            count_ = seconds_ = 0;
            is_complete_ = pass == 1;
        }
        add_settings(run);
        ++count_;
        seconds_ += number_after(text, "| iter time:").value_or(0) / 1000;
        const auto step = number_after(text, " step ");
        if (!contains(text, "ms (step)") || !step || !(*step > 0)) return;
        const double passes = pass / *step;
        if (is_complete_ && count_ == passes)
            run.add_step(StepReport::seconds, *step, seconds_);
        else if (!run.has_steps())
            run.set_reason(fmt::format(
                "no step times: the log does not contain all {:g} passes of each step; set train.log_interval to 1 "
                "and, for pretraining, global_batch_size to micro_batch_size times the number of GPUs",
                passes));
        count_ = seconds_ = 0;
        is_complete_ = true;
    }

    // Its settings do not describe how FSDP shards the model.
    void add_settings(LogRun& run) const {
        if (samples_) run.set(LogField::batch, *samples_);
        if (samples_of_pass_) run.set(LogField::micro_batch, *samples_of_pass_);
        run.set_without_plan();
    }

    std::optional<double> last_;      // pass
    double count_ = 0, seconds_ = 0;  // of the passes of this step so far
    bool is_complete_ = true;         // all passes of this step so far are printed
    std::optional<double> samples_, samples_of_pass_;
};

}  // namespace

std::unique_ptr<FrameworkLog> litgpt_log() { return std::make_unique<LitgptLog>(); }

}  // namespace tpx::formats
