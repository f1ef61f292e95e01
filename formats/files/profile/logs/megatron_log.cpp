// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/framework_log.hpp"
#include "formats/files/profile/logs/log_text.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

// Megatron-LM lists its arguments as "  tensor_model_parallel_size ...... 8" and reports steps as
// " [2026-11-21 12:00:01] iteration       20/   40000 | consumed samples: ... | elapsed time per iteration (ms): 628.7
// |
// ... | global batch size:    64 | ...", where the time is the mean since the last report. Megatron Bridge reports
// steps in the same way and lists settings as "  tensor_model_parallel_size: 8  (Mcore default: 1)"; so does NeMo.
// GPT-NeoX lists "  model_parallel_size ............. 2...........................updated".
// BigScience's Megatron-DeepSpeed reports "elapsed time per iteration (s): 105.22 |".

namespace tpx::formats {
namespace {

class MegatronLog final : public FrameworkLog {
public:
    bool starts_run(const LogLine& line) const override {
        return line.text.starts_with("using world size: ") ||
               line.text.starts_with("------------------------ arguments -");
    }

    void read(const LogLine& line, LogRun& run) override {
        if (line.origin.empty()) read_setting(settings, line, run);  // DeepSpeed has a world_size, too
        if (line.origin.empty() && line.is_argument) read_neox(line, run);
        read_sharding(line, run);
        read_recomputation(line, run);
        if (line.text.starts_with("using world size: "))
            for (const auto& [mark, field] : sizes)
                if (const auto size = number_after(line.text, mark)) run.set(field, *size);
        if (line.text.find("arameters") != line.text.npos) read_parameters(line.text, run);
        read_memory(line.text, run);
        read_step(line.text, run);
    }

private:
    using enum LogField;

    static constexpr std::array<LogSetting, 16> settings{{
        {"tensor_model_parallel_size", tp},
        {"pipeline_model_parallel_size", pp},
        {"virtual_pipeline_model_parallel_size", vpp},
        {"num_layers_per_virtual_pipeline_stage", layers_per_chunk},
        {"context_parallel_size", cp},
        {"data_parallel_size", dp},
        {"expert_model_parallel_size", ep},
        {"expert_tensor_parallel_size", etp},
        {"world_size", gpus},
        {"global_batch_size", batch},
        {"micro_batch_size", micro_batch},
        {"seq_length", sequence_length},
        {"num_layers", layers},
        {"sequence_parallel", sequence, SettingKind::flag},
        {"optimizer_cpu_offload", offload, SettingKind::flag},
        {"zero_stage", zero},  // Megatron-DeepSpeed
    }};

    static constexpr std::array<LogSetting, 6> neox_settings{{{"model_parallel_size", tp},
                                                              {"pipe_parallel_size", pp},
                                                              {"global_num_gpus", gpus},
                                                              {"train_batch_size", batch},
                                                              {"train_micro_batch_size_per_gpu", micro_batch},
                                                              {"gradient_accumulation_steps", accumulation}}};

    static void read_neox(const LogLine& line, LogRun& run) {
        if (line.key == "pipe_parallel_size" && line.value == "0") return run.forget(pp);  // no pipeline
        read_setting(neox_settings, line, run);
        if (line.key != "zero_optimization") return;
        if (const auto stage = number_after(line.value, "'stage':")) run.set(zero, *stage);
        if (contains(line.value, "'device': 'cpu'")) run.set(offload, "1");
    }

    // What is printed before the list of arguments, and without it.
    static constexpr std::array<std::pair<std::string_view, LogField>, 5> sizes{
        {{"using world size: ", gpus},
         {"data-parallel size: ", dp},
         {"context-parallel size: ", cp},
         {"tensor-model-parallel size: ", tp},  // Megatron-core 0.9 to 0.11 print "sizes: Nonetensor-model-..."
         {"pipeline-model-parallel size: ", pp}}};

    static constexpr std::array<LogSetting, 2> granularities{
        {{"recompute_granularity", recompute, SettingKind::word},
         {"activations_checkpoint_granularity", recompute, SettingKind::word}}};

    static constexpr double mebibyte = 1 << 20;

    // Optimizer state, gradients and weights that are sharded over replicas, as ZeRO stages.
    void read_sharding(const LogLine& line, LogRun& run) {
        if (line.key == "use_distributed_optimizer") {
            if (is_true_text(line.value))
                run.set_first(zero, "1");
            else if (line.is_argument && run.text(zero) == "1")
                run.forget(zero);
        } else if (line.key == "use_torch_fsdp2" && is_true_text(line.value)) {
            run.set(zero, "3");
        } else if (line.key == "use_megatron_fsdp" || line.key == "use_custom_fsdp") {
            fsdp_ = is_true_text(line.value);
        } else if (line.key == "data_parallel_sharding_strategy") {
            strategy_ = line.value;
        }
        constexpr std::array<std::string_view, 4> strategies{"no_shard", "optim", "optim_grads", "optim_grads_params"};
        for (std::size_t stage = 0; fsdp_ && stage < strategies.size(); ++stage)
            if (strategy_ == strategies[stage]) run.set(zero, static_cast<double>(stage));
    }

    // Megatron-LM 2.5 and 2.6, and NeMo of that time, have a method without a granularity: it recomputes whole layers.
    // In later versions, a method without a granularity recomputes nothing.
    void read_recomputation(const LogLine& line, LogRun& run) {
        read_setting(granularities, line, run);
        if (std::ranges::count(granularities, line.key, &LogSetting::key) > 0) has_granularity_ = true;
        const bool is_method = line.key == "activations_checkpoint_method" && !has_granularity_;
        if (is_method && (line.value == "uniform" || line.value == "block")) run.set_first(recompute, "full");
    }

    // The number that Megatron computes counts; otherwise the sum over the ranks of one replica.
    void read_parameters(std::string_view text, LogRun& run) {
        if (const auto billions = number_after(text, "Total number of parameters in billions:"))
            return run.set(parameters, *billions * 1e9);
        constexpr std::string_view mark = "(tensor, pipeline) model parallel rank (";
        const auto t = number_after(text, mark);
        if (!t) return;
        const std::string_view behind = text.substr(text.find(mark) + mark.size());
        const auto p = number_after(behind, ",");
        const auto count = number_after(behind, "):");
        if (!p || !count || parts_.size() > 100'000) return;
        parts_[{*t, *p}] = *count;
        double sum = 0;
        for (const auto& [rank, part] : parts_) sum += part;
        if (!run.has(tp) || !run.has(pp) || static_cast<double>(parts_.size()) != run.number(tp) * run.number(pp))
            return;
        if (run.number(ep, 1) == 1 && !run.has(parameters)) run.set(parameters, sum);
    }

    static void read_memory(std::string_view text, LogRun& run) {
        if (text.find(" memory (") == text.npos) return;
        if (const auto megabytes = number_after(text, "| max reserved:")) run.add_memory(*megabytes * mebibyte);
        if (const auto gigabytes = number_after(text, "mem-max-reserved-gigabytes:")) run.add_memory(*gigabytes * 1e9);
    }

    static void read_step(std::string_view text, LogRun& run) {
        if (const auto seconds = number_after(text, "Step Time :"))  // of Megatron Bridge, with two decimals
            return run.add_step(StepReport::rounded, std::nullopt, *seconds);
        std::optional<double> time = number_after(text, "elapsed time per iteration (s):");
        if (const auto milliseconds = number_after(text, "elapsed time per iteration (ms):"))
            time = *milliseconds / 1e3;
        if (!time) return;
        // While the batch size still grows, steps are not those of the run.
        if (const auto samples = number_after(text, "| global batch size:")) {
            if (run.has_steps() && *samples != run.number(batch)) run.forget_steps();
            run.set(batch, *samples);
        }
        run.add_step(StepReport::seconds, number_after(text, "iteration "), *time);
    }

    std::map<std::pair<double, double>, double> parts_;
    bool fsdp_ = false;
    bool has_granularity_ = false;
    std::string strategy_ = "no_shard";
};

}  // namespace

std::unique_ptr<FrameworkLog> megatron_log() { return std::make_unique<MegatronLog>(); }

}  // namespace tpx::formats
