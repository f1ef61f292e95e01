// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/column_aliases.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace tpx::formats {
namespace {

struct Alias {
    std::string_view column, quantity, unit;
};

constexpr Alias aliases[] = {
    {"step_time", "seconds", ""},
    {"iter_time", "seconds", ""},
    {"iteration_time", "seconds", ""},
    {"time_per_step", "seconds", ""},
    {"time_per_iteration", "seconds", ""},
    {"seconds_per_step", "seconds", ""},
    {"seconds_per_iteration", "seconds", ""},
    {"sec_per_step", "seconds", ""},
    {"s_per_step", "seconds", ""},
    {"step_time_s", "seconds", ""},
    {"step_time_sec", "seconds", ""},
    {"step_seconds", "seconds", ""},
    {"iter_time_s", "seconds", ""},
    {"iteration_time_s", "seconds", ""},
    {"time_s", "seconds", ""},
    {"time_sec", "seconds", ""},
    {"time_per_iter", "seconds", ""},
    {"time_per_iter_s", "seconds", ""},
    {"time_per_iteration_s", "seconds", ""},
    {"time_per_step_s", "seconds", ""},
    {"seconds_per_iter", "seconds", ""},
    {"sec_per_iter", "seconds", ""},
    {"sec_per_iteration", "seconds", ""},
    {"s_per_iter", "seconds", ""},
    {"s_per_iteration", "seconds", ""},
    {"s_it", "seconds", ""},
    {"s_step", "seconds", ""},
    {"step_time_seconds", "seconds", ""},
    {"iter_time_sec", "seconds", ""},
    {"iter_time_seconds", "seconds", ""},
    {"iteration_time_sec", "seconds", ""},
    {"iteration_time_seconds", "seconds", ""},
    {"iteration_seconds", "seconds", ""},
    {"iter_s", "seconds", ""},
    {"step_s", "seconds", ""},
    {"time_per_it_s", "seconds", ""},
    {"sec_it", "seconds", ""},
    {"s_per_it", "seconds", ""},
    {"sec_per_it", "seconds", ""},
    {"seconds_per_it", "seconds", ""},
    {"step_time_in_s", "seconds", ""},
    {"iter_time_in_s", "seconds", ""},
    {"step_time_ms", "seconds", "ms"},
    {"iter_time_ms", "seconds", "ms"},
    {"iteration_time_ms", "seconds", "ms"},
    {"time_per_step_ms", "seconds", "ms"},
    {"ms_per_step", "seconds", "ms"},
    {"ms_per_iter", "seconds", "ms"},
    {"ms_per_iteration", "seconds", "ms"},
    {"time_ms", "seconds", "ms"},
    {"time_per_iter_ms", "seconds", "ms"},
    {"time_per_iteration_ms", "seconds", "ms"},
    {"elapsed_time_per_iteration_ms", "seconds", "ms"},
    {"step_ms", "seconds", "ms"},
    {"iter_ms", "seconds", "ms"},
    {"iteration_ms", "seconds", "ms"},
    {"ms_per_it", "seconds", "ms"},
    {"ms_it", "seconds", "ms"},
    {"ms_iter", "seconds", "ms"},
    {"ms_step", "seconds", "ms"},
    {"step_time_in_ms", "seconds", "ms"},
    {"iter_time_in_ms", "seconds", "ms"},
    {"samples_per_second", "rate", "samples/s"},
    {"samples_per_sec", "rate", "samples/s"},
    {"samples_s", "rate", "samples/s"},
    {"samples_sec", "rate", "samples/s"},
    {"throughput_samples_s", "rate", "samples/s"},
    {"samples_per_s", "rate", "samples/s"},
    {"examples_per_second", "rate", "samples/s"},
    {"examples_per_sec", "rate", "samples/s"},
    {"examples_s", "rate", "samples/s"},
    {"images_per_second", "rate", "samples/s"},
    {"images_per_sec", "rate", "samples/s"},
    {"images_s", "rate", "samples/s"},
    {"img_s", "rate", "samples/s"},
    {"sequences_per_second", "rate", "samples/s"},
    {"sequences_per_sec", "rate", "samples/s"},
    {"sequences_s", "rate", "samples/s"},
    {"images_sec", "rate", "samples/s"},
    {"images_per_s", "rate", "samples/s"},
    {"img_sec", "rate", "samples/s"},
    {"img_per_s", "rate", "samples/s"},
    {"img_per_sec", "rate", "samples/s"},
    {"img_per_second", "rate", "samples/s"},
    {"imgs_s", "rate", "samples/s"},
    {"imgs_sec", "rate", "samples/s"},
    {"imgs_per_s", "rate", "samples/s"},
    {"imgs_per_sec", "rate", "samples/s"},
    {"imgs_per_second", "rate", "samples/s"},
    {"examples_sec", "rate", "samples/s"},
    {"examples_per_s", "rate", "samples/s"},
    {"sequences_sec", "rate", "samples/s"},
    {"sequences_per_s", "rate", "samples/s"},
    {"seqs_s", "rate", "samples/s"},
    {"seqs_sec", "rate", "samples/s"},
    {"steps_per_second", "rate", "steps/s"},
    {"steps_s", "rate", "steps/s"},
    {"iterations_per_second", "rate", "steps/s"},
    {"iters_per_second", "rate", "steps/s"},
    {"it_s", "rate", "steps/s"},
    {"steps_per_sec", "rate", "steps/s"},
    {"iterations_per_sec", "rate", "steps/s"},
    {"iters_per_sec", "rate", "steps/s"},
    {"iterations_s", "rate", "steps/s"},
    {"iters_s", "rate", "steps/s"},
    {"it_per_s", "rate", "steps/s"},
    {"steps_sec", "rate", "steps/s"},
    {"steps_per_s", "rate", "steps/s"},
    {"step_per_s", "rate", "steps/s"},
    {"step_per_sec", "rate", "steps/s"},
    {"it_sec", "rate", "steps/s"},
    {"it_per_sec", "rate", "steps/s"},
    {"iter_per_s", "rate", "steps/s"},
    {"iter_per_sec", "rate", "steps/s"},
    {"iters_sec", "rate", "steps/s"},
    {"iters_per_s", "rate", "steps/s"},
    {"iterations_sec", "rate", "steps/s"},
    {"iterations_per_s", "rate", "steps/s"},
    {"tokens_per_sec", "tokens_per_second", ""},
    {"tok_s", "tokens_per_second", ""},
    {"tok_sec", "tokens_per_second", ""},
    {"toks_s", "tokens_per_second", ""},
    {"tokens_s", "tokens_per_second", ""},
    {"tokens_sec", "tokens_per_second", ""},
    {"throughput_tokens_s", "tokens_per_second", ""},
    {"tokens_per_s", "tokens_per_second", ""},
    {"tokens_per_second_per_gpu", "tokens_per_second", "tokens/s/GPU"},
    {"tokens_s_gpu", "tokens_per_second", "tokens/s/GPU"},
    {"tokens_sec_gpu", "tokens_per_second", "tokens/s/GPU"},
    {"tokens_per_sec_per_gpu", "tokens_per_second", "tokens/s/GPU"},
    {"tokens_per_s_per_gpu", "tokens_per_second", "tokens/s/GPU"},
    {"tokens_per_gpu_per_second", "tokens_per_second", "tokens/s/GPU"},
    {"tokens_per_gpu_per_sec", "tokens_per_second", "tokens/s/GPU"},
    {"tokens_gpu_s", "tokens_per_second", "tokens/s/GPU"},
    {"samples_per_second_per_gpu", "rate", "samples/s/GPU"},
    {"samples_per_sec_per_gpu", "rate", "samples/s/GPU"},
    {"samples_s_gpu", "rate", "samples/s/GPU"},
    {"train_samples_per_second", "rate", "samples/s"},
    {"train_steps_per_second", "rate", "steps/s"},
    {"throughput_tps", "tokens_per_second", "tokens/s/GPU"},  // of torchtitan
    {"time_metrics_end_to_end_s", "seconds", ""},
    {"tflops", "rate", "TFLOP/s/GPU"},
    {"tflops_gpu", "rate", "TFLOP/s/GPU"},
    {"tflop_s_gpu", "rate", "TFLOP/s/GPU"},
    {"tflops_s_gpu", "rate", "TFLOP/s/GPU"},
    {"tflops_per_gpu", "rate", "TFLOP/s/GPU"},
    {"tflop_per_s_per_gpu", "rate", "TFLOP/s/GPU"},
    {"tflops_per_s_per_gpu", "rate", "TFLOP/s/GPU"},
    {"tflops_per_device", "rate", "TFLOP/s/GPU"},
    {"tflops_device", "rate", "TFLOP/s/GPU"},
    {"throughput_tflops", "rate", "TFLOP/s/GPU"},
    {"throughput_tflops_per_gpu", "rate", "TFLOP/s/GPU"},
    {"throughput_tflop_s_gpu", "rate", "TFLOP/s/GPU"},
    {"throughput_tflops_gpu", "rate", "TFLOP/s/GPU"},
    {"throughput_per_gpu_tflop_s_gpu", "rate", "TFLOP/s/GPU"},
    {"throughput_per_gpu_tflops", "rate", "TFLOP/s/GPU"},
    {"achieved_tflops", "rate", "TFLOP/s/GPU"},
    {"achieved_tflops_per_gpu", "rate", "TFLOP/s/GPU"},
    {"model_tflops", "rate", "TFLOP/s/GPU"},
    {"model_tflops_per_gpu", "rate", "TFLOP/s/GPU"},
    {"model_tflops_gpu", "rate", "TFLOP/s/GPU"},
    {"model_tflop_s_gpu", "rate", "TFLOP/s/GPU"},
    {"tflops_per_sec_per_gpu", "rate", "TFLOP/s/GPU"},
    {"tflops_sec_gpu", "rate", "TFLOP/s/GPU"},
    {"hardware_tflops", "rate", "hardware TFLOP/s/GPU"},
    {"hardware_tflops_per_gpu", "rate", "hardware TFLOP/s/GPU"},
    {"hfu_tflops", "rate", "hardware TFLOP/s/GPU"},
    {"global_batch_size", "batch", ""},
    {"global_batch", "batch", ""},
    {"gbs", "batch", ""},
    {"train_batch_size", "batch", ""},
    {"micro_batch_size", "micro_batch", ""},
    {"microbatch_size", "micro_batch", ""},
    {"mbs", "micro_batch", ""},
    {"num_micro_batches", "micro_batches", ""},
    {"num_microbatches", "micro_batches", ""},
    {"microbatches", "micro_batches", ""},
    {"gradient_accumulation_steps", "accumulation", ""},
    {"gradient_accumulation", "accumulation", ""},
    {"grad_accum", "accumulation", ""},
    {"ga", "accumulation", ""},
    {"data_parallel", "dp", ""},
    {"data_parallel_size", "dp", ""},
    {"dp_size", "dp", ""},
    {"tensor_parallel", "tp", ""},
    {"tensor_parallel_size", "tp", ""},
    {"tensor_model_parallel_size", "tp", ""},
    {"tp_size", "tp", ""},
    {"pipeline_parallel", "pp", ""},
    {"pipeline_parallel_size", "pp", ""},
    {"pipeline_model_parallel_size", "pp", ""},
    {"pp_size", "pp", ""},
    {"virtual_pipeline_model_parallel_size", "vpp", ""},
    {"virtual_pipeline_parallel_size", "vpp", ""},
    {"virtual_pipeline_size", "vpp", ""},
    {"vpp_size", "vpp", ""},
    {"vp_size", "vpp", ""},
    {"vp", "vpp", ""},
    {"context_parallel", "cp", ""},
    {"context_parallel_size", "cp", ""},
    {"cp_size", "cp", ""},
    {"zero_stage", "zero", ""},
    {"zero_optimization_stage", "zero", ""},
    {"activation_checkpointing", "recompute", ""},
    {"gradient_checkpointing", "recompute", ""},
    {"activation_recompute", "recompute", ""},
    {"cpu_offload", "offload", ""},
    {"cpu_offloading", "offload", ""},
    {"offload_optimizer", "offload", ""},
    {"optimizer_offload", "offload", ""},
    {"sequence_parallel", "sequence", ""},
    {"num_gpus", "gpus", ""},
    {"n_gpus", "gpus", ""},
    {"ngpus", "gpus", ""},
    {"gpu_count", "gpus", ""},
    {"world_size", "gpus", ""},
    {"nodes", "hosts", ""},
    {"num_nodes", "hosts", ""},
    {"n_nodes", "hosts", ""},
    {"nnodes", "hosts", ""},
    {"node_count", "hosts", ""},
    {"num_hosts", "hosts", ""},
    {"gpus_per_node", "per_host", ""},
    {"gpus_per_host", "per_host", ""},
    {"peak_memory", "memory", ""},
    {"mem_max_allocated_bytes", "memory", ""},
    {"max_memory_allocated_bytes", "memory", ""},
    {"memory_max_reserved_gib", "memory", "GiB"},
    {"memory_max_active_gib", "memory", "GiB"},
    {"memory_gb", "memory", "GB"},
    {"peak_memory_gb", "memory", "GB"},
    {"peak_mem_gb", "memory", "GB"},
    {"max_mem_gb", "memory", "GB"},
    {"gpu_memory_gb", "memory", "GB"},
    {"peak_mem_gib", "memory", "GiB"},
    {"max_mem_gib", "memory", "GiB"},
    {"peak_mem_mib", "memory", "MiB"},
    {"max_memory_gb", "memory", "GB"},
    {"memory_gib", "memory", "GiB"},
    {"peak_memory_gib", "memory", "GiB"},
    {"memory_mb", "memory", "MB"},
    {"memory_mib", "memory", "MiB"},
    {"peak_memory_mib", "memory", "MiB"},
    {"peak_memory_mb", "memory", "MB"},
    {"max_memory_gib", "memory", "GiB"},
    {"max_memory_mb", "memory", "MB"},
    {"max_memory_mib", "memory", "MiB"},
    {"seq_len", "sequence_length", ""},
    {"seq_length", "sequence_length", ""},
    {"seqlen", "sequence_length", ""},
    {"max_seq_len", "sequence_length", ""},
    {"cpus_per_gpu", "cpus", ""},
    {"gpu_type", "gpu", ""},
    {"gpu_name", "gpu", ""},
    {"gpu_model", "gpu", ""},
    {"device_type", "gpu", ""},
    {"accelerator", "gpu", ""},
    {"hardware", "gpu", ""},
    {"cluster", "gpu", ""},
    {"model_name", "model", ""},
    {"expert_parallel_size", "ep", ""},
    {"expert_model_parallel_size", "ep", ""},
    {"expert_tensor_parallel_size", "etp", ""},
};

struct Doubtful {
    std::string_view column, meaning;
};

constexpr Doubtful doubtful[] = {
    {"batch_size", "batch or micro_batch"},
    {"bs", "batch or micro_batch"},
    {"local_batch_size", "micro_batch"},
    {"time", "seconds"},
    {"duration", "seconds"},
    {"throughput", "rate or tokens_per_second"},
    {"tps", "tokens_per_second"},
    {"parallelism", "plan"},
    {"strategy", "plan"},
    {"config", "plan"},
    {"sharding", "zero or fsdp"},
    {"stage", "zero or pp"},
    {"checkpointing", "recompute"},
};

// "Step time (ms)" becomes "step_time_ms", and "iter/s" becomes "iter_`slash`s".
std::string normal_name(std::string_view column, std::string_view slash = "") {
    std::string name;
    for (const unsigned char c : column) {
        if (std::isalnum(c) != 0)
            name += static_cast<char>(std::tolower(c));
        else if (c == '/' && !slash.empty() && !name.empty())
            name.append(name.back() == '_' ? "" : "_").append(slash).append("_");
        else if (!name.empty() && name.back() != '_')
            name += '_';
    }
    while (name.ends_with('_')) name.pop_back();
    return name;
}

// `column` without the prefix that experiment trackers add for a group of columns, as in "params.tp".
std::string_view without_group(std::string_view column) {
    for (const std::string_view group : {"params.", "metrics.", "config.", "config/", "summary.", "perf/", "train/"})
        if (column.starts_with(group)) return column.substr(group.size());
    return column;
}

}  // namespace

std::optional<std::pair<std::string, ColumnSource>> known_alias(std::string_view given) {
    const std::string_view column = without_group(given);
    const std::string name = normal_name(column);
    ColumnSource source;
    source.column = given;
    if (std::ranges::count(run_quantities(), name) > 0) return std::pair{name, source};
    // "iter/s" are iterations per second, while "iter_s" are seconds, as "iter_ms" are milliseconds.
    const auto* found = std::ranges::find(aliases, normal_name(column, "per"), &Alias::column);
    if (found == std::end(aliases)) found = std::ranges::find(aliases, name, &Alias::column);
    if (found == std::end(aliases)) return std::nullopt;
    source.unit = found->unit;
    return std::pair{std::string{found->quantity}, source};
}

std::string_view doubtful_meaning(std::string_view column) {
    const std::string name = normal_name(column);
    const auto* found = std::ranges::find(doubtful, name, &Doubtful::column);
    return found == std::end(doubtful) ? std::string_view{} : found->meaning;
}

}  // namespace tpx::formats
