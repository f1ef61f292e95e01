// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/column_aliases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace tpx::formats {
namespace {

/// Names of columns of one quantity, separated by spaces.
struct Aliases {
    std::string_view quantity, unit, columns;
};

constexpr Aliases aliases[] = {
    {"seconds", "",
     "step_time iter_time iteration_time time_per_step time_per_iteration seconds_per_step "
     "seconds_per_iteration sec_per_step s_per_step step_time_s step_time_sec step_seconds iter_time_s "
     "iteration_time_s time_s time_sec time_per_iter time_per_iter_s time_per_iteration_s "
     "time_per_step_s seconds_per_iter sec_per_iter sec_per_iteration s_per_iter s_per_iteration s_it "
     "s_step step_time_seconds iter_time_sec iter_time_seconds iteration_time_sec "
     "iteration_time_seconds iteration_seconds iter_s step_s time_per_it_s sec_it s_per_it sec_per_it "
     "seconds_per_it secs_per_step secs_per_iter secs_per_it step_time_in_s iter_time_in_s time_metrics_end_to_end_s"},
    {"seconds", "ms",
     "step_time_ms iter_time_ms iteration_time_ms time_per_step_ms ms_per_step ms_per_iter "
     "ms_per_iteration time_ms time_per_iter_ms time_per_iteration_ms elapsed_time_per_iteration_ms "
     "step_ms iter_ms iteration_ms ms_per_it ms_it ms_iter ms_step step_time_in_ms iter_time_in_ms"},
    {"seconds", "us", "step_time_us iter_time_us iteration_time_us us_per_step us_per_iteration step_us"},
    {"rate", "samples/s",
     "samples_per_second samples_per_sec samples_s samples_sec throughput_samples_s throughput_samples_sec "
     "samples_per_s examples_per_second examples_per_sec examples_s images_per_second images_per_sec images_s img_s "
     "sequences_per_second sequences_per_sec sequences_s images_sec images_per_s img_sec img_per_s "
     "img_per_sec img_per_second imgs_s imgs_sec imgs_per_s imgs_per_sec imgs_per_second examples_sec "
     "examples_per_s sequences_sec sequences_per_s seqs_s seqs_sec train_samples_per_second"},
    {"rate", "steps/s",
     "steps_per_second steps_s iterations_per_second iters_per_second it_s steps_per_sec "
     "iterations_per_sec iters_per_sec iterations_s iters_s it_per_s steps_sec steps_per_s step_per_s "
     "step_per_sec it_sec it_per_sec iter_per_s iter_per_sec iters_sec iters_per_s iterations_sec "
     "iterations_per_s train_steps_per_second"},
    {"rate", "steps/min", "steps_per_min steps_per_minute steps_min iterations_per_minute it_per_min it_min"},
    {"rate", "steps/h", "steps_per_hour steps_per_h steps_hour steps_h iterations_per_hour it_per_hour"},
    {"tokens_per_second", "ktokens/s",
     "ktokens_s ktokens_sec ktokens_per_s ktokens_per_sec ktokens_per_second k_tokens_s k_tokens_sec ktok_s"},
    {"tokens_per_second", "",
     "tokens_per_sec tok_s tok_sec toks_s tokens_s tokens_sec throughput_tokens_s throughput_tokens_sec "
     "throughput_tokens_per_s throughput_tokens_per_second tokens_per_s"},
    {"tokens_per_second", "tokens/s/GPU",
     "tokens_per_second_per_gpu tokens_s_gpu tokens_sec_gpu tokens_per_sec_per_gpu "
     "tokens_s_device tokens_sec_device tokens_per_second_per_device tokens_per_sec_per_device "
     "tokens_per_s_per_device tok_s_gpu tok_s_device "
     "tokens_per_s_per_gpu tokens_per_gpu_per_second tokens_per_gpu_per_sec tokens_gpu_s "
     "throughput_tps throughput_tokens_s_gpu throughput_tokens_sec_gpu throughput_tokens_s_per_gpu "
     "throughput_tokens_per_s_per_gpu tokens_s_per_gpu tokens_sec_per_gpu tok_s_per_gpu tokens_gpu_sec tgs"},
    {"rate", "samples/s/GPU", "samples_per_second_per_gpu samples_per_sec_per_gpu samples_s_gpu"},
    {"rate", "TFLOP/s/GPU",
     "tflops tflops_gpu tflop_s_gpu tflops_s_gpu tflops_per_gpu tflop_per_s_per_gpu "
     "tflops_per_s_per_gpu tflops_per_device tflops_device throughput_tflops throughput_tflops_per_gpu "
     "throughput_tflop_s_gpu throughput_tflops_gpu throughput_per_gpu_tflop_s_gpu "
     "throughput_per_gpu_tflops achieved_tflops achieved_tflops_per_gpu model_tflops "
     "model_tflops_per_gpu model_tflops_gpu model_tflop_s_gpu tflops_per_sec_per_gpu tflops_sec_gpu"},
    {"rate", "hardware TFLOP/s/GPU", "hardware_tflops hardware_tflops_per_gpu hfu_tflops"},
    {"batch", "", "global_batch_size global_batch gbs train_batch_size"},
    {"micro_batch", "",
     "micro_batch_size microbatch_size mbs per_device_train_batch_size per_device_batch_size per_gpu_batch_size "
     "batch_size_per_gpu batch_size_per_device batch_per_gpu device_batch_size train_micro_batch_size_per_gpu "
     "micro_bs"},
    {"micro_batches", "", "num_micro_batches num_microbatches microbatches"},
    {"accumulation", "",
     "gradient_accumulation_steps gradient_accumulation grad_accum ga gas grad_accum_steps gradient_accumulation_step "
     "accumulation_steps"},
    {"dp", "", "data_parallel data_parallel_size dp_size data_parallel_degree dp_degree"},
    {"tp", "",
     "tensor_parallel tensor_parallel_size tensor_model_parallel_size tp_size tensor_parallel_degree "
     "tensor_model_parallel_degree tp_degree"},
    {"pp", "",
     "pipeline_parallel pipeline_parallel_size pipeline_model_parallel_size pp_size pipeline_parallel_degree "
     "pipeline_model_parallel_degree pp_degree"},
    {"vpp", "",
     "virtual_pipeline_model_parallel_size virtual_pipeline_parallel_size virtual_pipeline_size "
     "vpp_size vp_size vp virtual_pipeline_parallel_degree"},
    {"cp", "", "context_parallel context_parallel_size cp_size context_parallel_degree cp_degree"},
    {"zero", "", "zero_stage zero_optimization_stage"},
    {"recompute", "",
     "activation_checkpointing gradient_checkpointing activation_recompute recompute_granularity activation_checkpoint "
     "activation_checkpointing_mode ac ac_mode"},
    {"offload", "", "cpu_offload cpu_offloading offload_optimizer optimizer_offload"},
    {"sequence", "", "sequence_parallel"},
    {"gpus", "",
     "num_gpus n_gpus ngpus gpu_count world_size alloctres alloc_tres tres total_gpus gpus_total "
     "number_of_gpus of_gpus no_of_gpus num_gpu"},
    {"gpus", "", "reqtres req_tres"},
    {"hosts", "", "nodes num_nodes n_nodes nnodes node_count num_hosts number_of_nodes of_nodes no_of_nodes"},
    {"per_host", "",
     "gpus_per_node gpus_per_host gres reqgres req_gres tres_per_node num_gpus_per_node n_gpus_per_node gpu_per_node "
     "devices_per_node nproc_per_node"},
    {"placement", "", "nodes_x_gpus hosts_x_gpus nodes_gpus hosts_gpus nodesxgpus"},
    {"memory", "", "peak_memory mem_max_allocated_bytes max_memory_allocated_bytes"},
    {"memory", "GiB",
     "memory_max_reserved_gib memory_max_active_gib memory_gib peak_memory_gib max_memory_gib peak_mem_gib "
     "max_mem_gib"},
    {"memory", "GB", "memory_gb peak_memory_gb peak_mem_gb max_mem_gb gpu_memory_gb max_memory_gb"},
    {"memory", "MB", "memory_mb peak_memory_mb max_memory_mb"},
    {"memory", "MiB", "memory_mib peak_memory_mib max_memory_mib peak_mem_mib"},
    {"sequence_length", "", "seq_len seq_length seqlen max_seq_len max_seq_length context_length ctx_len sequence_len"},
    {"cpus", "", "cpus_per_gpu"},
    {"gpu", "", "gpu_type gpu_name gpu_model device_type accelerator hardware cluster"},
    {"model", "", "model_name"},
    {"status", "", "state run_status job_status outcome"},
    {"ep", "", "expert_parallel_size expert_model_parallel_size expert_parallel_degree ep_degree"},
    {"etp", "", "expert_tensor_parallel_size"},
};

struct Doubtful {
    std::string_view column, meaning;
};

constexpr Doubtful doubtful_columns[] = {
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
    {"sharding_strategy", "zero or fsdp"},
    {"sequence_parallel_size", "cp"},
    {"sequence_parallel_degree", "cp"},
    {"sp_size", "cp"},
    {"sp_degree", "cp"},
    {"ulysses_degree", "cp"},
    {"ulysses_size", "cp"},
    {"sp", "cp or sequence"},
    {"data_parallel_shard_degree", "fsdp"},
    {"data_parallel_replicate_degree", "dp"},
    {"n_gpu", "gpus or per_host"},
    {"devices", "gpus or per_host"},
    {"num_devices", "gpus or per_host"},
    {"n_devices", "gpus or per_host"},
    {"number_of_devices", "gpus or per_host"},
    {"device_count", "gpus or per_host"},
    {"batch_tokens", tokens_of_batch},
    {"batch_size_tokens", tokens_of_batch},
    {"global_batch_m_tokens", tokens_of_batch},
    {"global_batch_tokens", tokens_of_batch},
    {"global_batch_size_tokens", tokens_of_batch},
    {"tokens_per_batch", tokens_of_batch},
    {"allocgres", "gpus or per_host"},
    {"alloc_gres", "gpus or per_host"},
};

// The aliases that contain `name`; null if none do.
const Aliases* aliases_with(std::string_view name) {
    const std::string word = fmt::format(" {} ", name);
    const auto* found = std::ranges::find_if(aliases, [&](const Aliases& some) {
        return fmt::format(" {} ", some.columns).find(word) != std::string::npos;
    });
    return found == std::end(aliases) ? nullptr : found;
}

// "Step time (ms)" becomes "step_time_ms", and "iter/s" becomes "iter_`slash`s".
std::string normal_name(std::string_view column, std::string_view slash = "") {
    std::string name, plain{column};
    for (const std::string_view micro : {"\xC2\xB5", "\xCE\xBC"})  // else "µs" would become "s"
        for (std::size_t at = 0; (at = plain.find(micro)) != plain.npos;) plain.replace(at, micro.size(), "u");
    for (const unsigned char c : plain) {
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
    for (const std::string_view group :
         {"params.", "metrics.", "config.", "config/", "summary.", "perf/", "train/", "plan.", "parallelism.",
          "parallel.", "layout.", "result.", "results.", "timing.", "perf.", "performance.", "hardware.", "cluster."})
        if (column.starts_with(group)) return column.substr(group.size());
    return column;
}

// `name` without a word for the usual value of several measurements, as in "mean_step_time" and "step_time_avg_ms".
std::string without_average(const std::string& name) {
    for (const std::string_view word : {"mean", "avg", "average", "median", "p50"}) {
        const std::string front = fmt::format("{}_", word), back = fmt::format("_{}", word);
        if (name.starts_with(front)) return name.substr(front.size());
        if (name.ends_with(back)) return name.substr(0, name.size() - back.size());
        for (const std::string_view unit : {"_s", "_ms", "_us", "_sec", "_seconds", "_gb", "_gib", "_mb", "_mib"})
            if (const std::string both = back + std::string{unit}; name.ends_with(both))
                return name.substr(0, name.size() - both.size()) + std::string{unit};
    }
    return name;
}

}  // namespace

std::optional<std::pair<std::string, ColumnSource>> known_alias(std::string_view given) {
    const std::string_view column = without_group(given);
    const std::string name = normal_name(column);
    ColumnSource source;
    source.column = given;
    if (std::ranges::count(run_quantities(), name) > 0) return std::pair{name, source};
    // "iter/s" are iterations per second, while "iter_s" are seconds, as "iter_ms" are milliseconds.
    const Aliases* found = aliases_with(normal_name(column, "per"));
    if (found == nullptr) found = aliases_with(name);
    if (found == nullptr) found = aliases_with(without_average(name));
    if (found == nullptr) return std::nullopt;
    source.unit = found->unit;
    return std::pair{std::string{found->quantity}, source};
}

bool is_requested(std::string_view column) { return normal_name(without_group(column)).starts_with("req"); }

std::string_view doubtful_meaning(std::string_view column) {
    const std::string name = normal_name(column);
    const auto* found = std::ranges::find(doubtful_columns, name, &Doubtful::column);
    return found == std::end(doubtful_columns) ? std::string_view{} : found->meaning;
}

}  // namespace tpx::formats
