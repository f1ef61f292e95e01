// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/framework_log.hpp"
#include "formats/files/profile/logs/log_text.hpp"

#include <array>
#include <optional>
#include <string_view>

// The console logger of MosaicML's Composer, which LLM Foundry uses, prints a block for each logged batch:
// "[batch=12/4800]:", then lines such as "\t Train time/batch: 11" and "\t Train throughput/batches_per_sec: 0.4321",
// an average of the last 100 batches by default. Settings are lines of YAML before the first block.

namespace tpx::formats {
namespace {

class ComposerLog final : public FrameworkLog {
public:
    bool starts_run(const LogLine& line) const override {
        const bool is_heading = line.key == "Config" && line.value.empty();
        return line.key == "composer_version" || (is_heading && !settings_.values().empty());
    }

    void read(const LogLine& line, LogRun& run) override {
        if (!line.text.starts_with("Train ")) return read_settings(line, run);
        constexpr double gigabyte = 1e9;
        if (const auto before = number_after(line.text, "Train time/batch:")) number_ = *before + 1;
        if (const auto used = number_after(line.text, "Train memory/peak_reserved_mem:"))
            run.add_memory(*used * gigabyte);
        // Rates have four decimals, too few for long steps.
        constexpr double least_rate = 0.02;
        const auto batches = number_after(line.text, "Train throughput/batches_per_sec:");
        if (batches && *batches >= least_rate) add_step(StepReport::seconds, 1 / *batches, run);
        const auto samples = number_after(line.text, "Train throughput/samples_per_sec:");
        if (samples) add_step(StepReport::samples_per_second, *samples, run);
    }

private:
    using enum LogField;

    void add_step(StepReport report, double value, LogRun& run) {
        for (const auto& [field, text] : settings_.values()) run.set_first(field, text);
        if (!run.has(zero)) run.set_without_plan();
        run.add_step(report, number_, value);
    }

    void read_settings(const LogLine& line, LogRun& run) {
        if (line.text.empty() && contains(line.whole, "[batch=") && run.reason().empty())
            run.set_reason(
                "no step times: Composer's SpeedMonitor logs rates only after window_size batches (default 100); "
                "pass a longer log or lower window_size");
        constexpr std::array<LogSetting, 6> names{{{"global_train_batch_size", batch},
                                                   {"device_train_microbatch_size", micro_batch},
                                                   {"max_seq_len", sequence_length},
                                                   {"n_gpus", gpus},
                                                   {"num_gpus_per_node", per_host},
                                                   {"tensor_parallel_degree", tp}}};
        read_setting(names, line, settings_);
        if (line.key == "num_nodes") hosts_ = number_after(line.value, "");
        if (hosts_ && settings_.has(per_host)) settings_.set(gpus, *hosts_ * settings_.number(per_host));
        if (line.key == "activation_checkpointing" && is_true_text(line.value)) settings_.set(recompute, "full");
        if (line.key != "sharding_strategy") return;
        if (line.value == "FULL_SHARD") settings_.set(zero, "3");
        if (line.value == "SHARD_GRAD_OP") settings_.set(zero, "2");
        if (line.value == "NO_SHARD") settings_.set(zero, "0");
    }

    LogRun settings_;  // copied to the run when Composer logs a step
    std::optional<double> hosts_;
    std::optional<double> number_;  // number of the batch that a block is about
};

}  // namespace

std::unique_ptr<FrameworkLog> composer_log() { return std::make_unique<ComposerLog>(); }

}  // namespace tpx::formats
