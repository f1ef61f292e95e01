// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/framework_log.hpp"
#include "formats/files/profile/logs/log_text.hpp"

#include <algorithm>
#include <array>
#include <optional>

// DeepSpeed lists its configuration as "[...] [INFO] [config.py:678:print]   train_batch_size ............. 64" and
// then as JSON. With steps_per_print it reports "epoch=0/micro_step=8/global_step=4, RunningAvgSamplesPerSec=44.1,
// CurrSamplesPerSec=41.0, MemAllocated=0.67GB, MaxMemAllocated=0.67GB", where CurrSamplesPerSec is of the last step;
// a pipeline "steps: 10 loss: 2.3041 iter time (s): 1.234 samples/sec: 25.932"; and with wall_clock_breakdown
// "[Rank 0] time (ms) | fwd: 14.46 | bwd: 25.82 | bwd_inner: ... | step: 7.51", before 0.9 "[Rank 0] rank=0 time (ms) |
// forward: 14.46 | backward: ...". Until 2022 it reported "0/20, SamplesPerSec=44.1", the mean since the second step.

namespace tpx::formats {
namespace {

class DeepSpeedLog final : public FrameworkLog {
public:
    bool starts_run(const LogLine& line) const override {
        return contains(line.text, "DeepSpeed info: version=") ||
               line.text.starts_with("DeepSpeedEngine configuration:");
    }

    void read(const LogLine& line, LogRun& run) override {
        if (!line.is_argument || line.origin.starts_with("config.py")) read_setting(settings, line, run);
        read_zero(line, run);
        if (line.key == "checkpoint_activations" && is_true_text(line.value)) run.set(recompute, "full");
        read_pipeline(line.text, run);
        read_step(line.text, run);
    }

private:
    using enum LogField;

    static constexpr std::array<LogSetting, 5> settings{{{"train_batch_size", batch},
                                                         {"train_micro_batch_size_per_gpu", micro_batch},
                                                         {"gradient_accumulation_steps", accumulation},
                                                         {"world_size", dp},  // without tensor and pipeline parallelism
                                                         {"zero_optimization_stage", zero}}};

    static constexpr double gibibyte = 1 << 30;

    // The JSON has "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, a line for each key.
    void read_zero(const LogLine& line, LogRun& run) {
        constexpr std::string_view offloading = "offload_optimizer=DeepSpeedZeroOffloadOptimizerConfig(device=";
        if (line.is_argument && contains(line.value, offloading)) {
            const std::string_view device = line.value.substr(line.value.find(offloading) + offloading.size());
            if (device.starts_with("'cpu'") || device.starts_with("<OffloadDeviceEnum.cpu")) run.set(offload, "1");
        }
        const bool is_on_nvme = contains(line.value, "device='nvme'") || contains(line.value, "OffloadDeviceEnum.nvme");
        if (line.is_argument && is_on_nvme) run.set(offload, nvme_offload);
        if (line.is_argument || line.key.empty()) return;
        if (line.value.ends_with('{')) section_ = line.key;
        if (section_ == "zero_optimization" && line.key == "stage") run.set_first(zero, line.value);
        if (!section_.starts_with("offload_") || line.key != "device") return;
        if (line.value == "nvme") run.set(offload, nvme_offload);
        if (section_ == "offload_optimizer" && line.value == "cpu") run.set_first(offload, "1");
    }

    static void read_pipeline(std::string_view text, LogRun& run) {
        if (text.starts_with("CONFIG: micro_batches=")) {
            if (const auto count = number_after(text, " micro_batches=")) run.set(micro_batches, *count);
            if (const auto samples = number_after(text, "micro_batch_size=")) run.set(micro_batch, *samples);
        }
        if (text.starts_with("Using topology:")) {  // {ProcessCoord(pipe=0, data=0, model=0): 0, ...}
            const std::string_view last = text.substr(std::min(text.rfind("ProcessCoord("), text.size()));
            if (const auto stage = number_after(last, "pipe=")) run.set(pp, *stage + 1);
            if (const auto replica = number_after(last, "data=")) run.set(dp, *replica + 1);
            if (const auto shard = number_after(last, "model=")) run.set(tp, *shard + 1);
        }
        if (const auto count = number_after(text, " TOTAL_PARAMS=")) run.set(parameters, *count);
    }

    void read_step(std::string_view text, LogRun& run) {
        if (const auto used = number_after(text, "MaxMemAllocated=")) run.add_memory(*used * gibibyte);
        if (const auto rate = number_after(text, "CurrSamplesPerSec=")) {
            auto number = number_after(text, "global_step=");
            if (!number) number = number_before(text, ", RunningAvgSamplesPerSec=");  // of 2022: "0/20, Running..."
            return run.add_step(StepReport::samples_per_second, number, *rate);
        }
        if (const auto seconds = number_after(text, " iter time (s):"))
            return run.add_step(StepReport::seconds, number_after(text, "steps:"), *seconds);
        if (const auto mean = number_after(text, ", SamplesPerSec="))
            return read_mean_rate(number_before(text, ", SamplesPerSec="), *mean, run);
        if (!contains(text, "time (ms) |")) return;
        auto forward = number_after(text, "| fwd:"), backward = number_after(text, "| bwd:");
        if (!forward) forward = number_after(text, "| forward:");
        if (!backward) backward = number_after(text, "| backward:");
        const auto step = number_after(text, "| step:");
        if (forward && backward && step)
            run.add_step(StepReport::parts, std::nullopt, (*forward + *backward + *step) / 1e3);
    }

    // `mean` is the mean rate of the third step to step `number`. The rate since the last report follows from the means
    // of both reports.
    void read_mean_rate(std::optional<double> number, double mean, LogRun& run) {
        constexpr double not_counted = 2;
        if (!number || !(*number > not_counted) || !(mean > 0)) return;
        const double seconds = (*number - not_counted) / mean;                   // divided by the samples per step
        if (*number <= number_of_mean_) number_of_mean_ = seconds_of_mean_ = 0;  // a new epoch or a restart
        const double steps = *number - std::max(not_counted, number_of_mean_);
        if (seconds > seconds_of_mean_)
            run.add_step(StepReport::samples_per_second, *number, steps / (seconds - seconds_of_mean_));
        number_of_mean_ = *number;
        seconds_of_mean_ = seconds;
    }

    std::string section_;  // the section of the JSON to which a line belongs
    double number_of_mean_ = 0, seconds_of_mean_ = 0;
};

}  // namespace

std::unique_ptr<FrameworkLog> deepspeed_log() { return std::make_unique<DeepSpeedLog>(); }

}  // namespace tpx::formats
