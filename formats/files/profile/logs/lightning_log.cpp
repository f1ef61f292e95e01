// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/framework_log.hpp"
#include "formats/files/profile/logs/log_text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

// PyTorch Lightning draws bars, "Epoch 0:  72%|███████▏  | 28/39 [00:10<00:04,  2.71it/s, v_num=0]". NeMo 1 adds its
// metrics to them, "..., reduced_train_loss=11.50, global_step=5.000, consumed_samples=12288.0, train_step_timing in
// s=49.50]"; NeMo 2 prints "Training epoch 0, iteration 45/99 | lr: 6.897e-06 | global_batch_size: 128 | global_step:
// 45 | max_memory_reserved: 127785762816 | ... | train_step_timing in s: 6.08 | consumed_samples: 5888". Both have
// Megatron's settings in YAML, and list the groups of ranks.

namespace tpx::formats {
namespace {

class LightningLog final : public FrameworkLog {
public:
    bool starts_run(const LogLine& line) const override {
        return contains(line.text, "All distributed processes registered. Starting with ") ||
               contains(line.text, "** Experiment configuration **");
    }

    void read(const LogLine& line, LogRun& run) override {
        read_setting(settings, line, run);
        read_world(line, run);
        for (const auto& [mark, field] : groups) {
            const std::size_t at = line.text.find(mark);
            if (at == line.text.npos) continue;
            const std::string_view list = line.text.substr(at + mark.size());
            run.set(field, static_cast<double>(1 + std::ranges::count(list.substr(0, list.find(']')), ',')));
        }
        read_timing(line.text, run);
        read_bar(line.text, run);
    }

private:
    using enum LogField;

    static constexpr std::array<LogSetting, 2> settings{
        {{"encoder_seq_length", sequence_length}, {"devices", per_host}}};

    // Groups of ranks as Rank 0 lists its own.
    static constexpr std::array<std::pair<std::string_view, LogField>, 3> groups{
        {{"Rank 0 has tensor model parallel group: [", tp},
         {"Rank 0 has pipeline model parallel group: [", pp},
         {"Rank 0 has context parallel group: [", cp}}};

    void read_world(const LogLine& line, LogRun& run) {
        if (const auto count = number_after(line.text, "processes registered. Starting with ")) run.set(gpus, *count);
        if (const auto count = number_after(line.text, "num_nodes: "); count && line.key == "num_nodes")
            hosts_ = *count;
        if (hosts_ > 0 && run.has(per_host) && !run.has(gpus)) run.set(gpus, hosts_ * run.number(per_host));
        // The optimizer of NeMo 1 that splits its state.
        if (line.key == "name" && line.value == "distributed_fused_adam") run.set_first(zero, "1");
    }

    void read_timing(std::string_view text, LogRun& run) {
        for (const char* mark : {"max_memory_reserved: ", "peak_memory_usage: "})
            if (const auto bytes = number_after(text, mark)) run.add_memory(*bytes);
        auto time = number_after(text, "train_step_timing in s: ");
        if (!time) time = number_after(text, "train_step_timing in s=");
        if (!time) return;
        auto number = number_after(text, "global_step: ");
        if (!number) number = number_after(text, "global_step=");
        if (const auto samples = number_after(text, "| global_batch_size: ")) run.set(batch, *samples);
        if (number) find_batch(*number, number_after(text, "consumed_samples="), run);
        // The first step has number 0.
        run.add_step(StepReport::seconds, number ? std::optional{*number + 1} : std::nullopt, *time);
    }

    // Computes the samples of a step from the counts of two reports.
    void find_batch(double number, std::optional<double> samples, LogRun& run) {
        if (!samples || run.has(batch)) return;
        if (consumed_ && number > consumed_->first && *samples > consumed_->second)
            run.set_whole(batch, (*samples - consumed_->second) / (number - consumed_->first));
        consumed_ = {number, *samples};
    }

    static void read_bar(std::string_view text, LogRun& run) {
        if (text.starts_with("Epoch") || text.starts_with("Train"))
            if (const auto seconds = seconds_of_bar(text)) run.add_step(StepReport::bar, step_of_bar(text), *seconds);
        // "|  run_training_batch       |  0.0088248      |  40             |  0.35299        |  40.197         |"
        const auto mean = number_after(text, "|  run_training_batch");
        if (!mean) return;
        const std::string_view row = text.substr(text.find("|  run_training_batch") + 1);
        const std::size_t second = row.find('|', row.find('|') + 1);
        run.set_mean_seconds(*mean, second == row.npos ? 0 : number_after(row.substr(second), "|").value_or(0));
    }

    double hosts_ = 0;
    std::optional<std::pair<double, double>> consumed_;  // step and samples of the last report
};

}  // namespace

std::unique_ptr<FrameworkLog> lightning_log() { return std::make_unique<LightningLog>(); }

}  // namespace tpx::formats
