// SPDX-License-Identifier: Apache-2.0
#include "formats/settings/training_args.hpp"

#include <algorithm>
#include <array>

namespace tpx::formats::megatron {
namespace {

constexpr auto layout = std::to_array<std::string_view>({
    "account_for_embedding_in_pipeline_split",
    "account_for_loss_in_pipeline_split",
    "context_parallel_size",
    "cp_comm_type",
    "data_parallel_sharding_strategy",
    "data_parallel_size",
    "decoder_first_pipeline_num_layers",
    "decoder_last_pipeline_num_layers",
    "decoder_pipeline_model_parallel_size",
    "encoder_pipeline_model_parallel_size",
    "encoder_tensor_model_parallel_size",
    "expert_model_parallel_size",
    "expert_tensor_parallel_size",
    "hierarchical_context_parallel_sizes",
    "hybrid_context_parallel",
    "local_rank",
    "make_vocab_size_divisible_by",
    "max_seqlen_per_dp_cp_rank",
    "microbatch_group_size_per_vp_stage",
    "model_parallel_size",
    "moe_extended_tp",
    "num_distributed_optimizer_instances",
    "num_layers_per_virtual_pipeline_stage",
    "num_virtual_stages_per_pipeline_rank",
    "outer_dp_sharding_strategy",
    "padded_vocab_size",
    "pipeline_model_parallel_layout",
    "pipeline_model_parallel_size",
    "pipeline_model_parallel_split_rank",
    "rank",
    "sequence_parallel",
    "standalone_embedding_stage",
    "tensor_model_parallel_size",
    "transformer_pipeline_model_parallel_size",
    "use_custom_fsdp",
    "use_distributed_optimizer",
    "use_megatron_fsdp",
    "use_torch_fsdp2",
    "use_tp_pp_dp_mapping",
    "virtual_pipeline_model_parallel_size",
    "world_size",
});

constexpr auto storage = std::to_array<std::string_view>({
    "async_save",
    "auto_detect_ckpt_format",
    "exit_on_missing_checkpoint",
    "load",
    "load_main_params_from_ckpt",
    "save",
    "use_checkpoint_args",
    "use_mp_args_from_checkpoint_args",
    "use_persistent_ckpt_worker",
    "use_tokenizer_model_from_checkpoint_args",
});

constexpr auto running = std::to_array<std::string_view>({
    "app_tag_run_name",
    "app_tag_run_version",
    "barrier_with_L1_time",
    "disable_straggler_on_startup",
    "distributed_backend",
    "memory_snapshot_path",
    "pipeline_model_parallel_comm_backend",
    "profile",
    "record_memory_history",
    "run_workload_inspector_server",
    "scatter_gather_tensors_in_pipeline",
    "torch_fsdp2_reshard_after_forward",
    "use_pytorch_profiler",
    "use_ring_exchange_p2p",
    "use_sharp",
});

constexpr auto prefixes = std::to_array<std::string_view>({
    "align_grad_",
    "align_param_",
    "calc_ft_",
    "ckpt_",
    "ddp_",
    "dist_ckpt_",
    "distrib_optim_",
    "distributed_timeout_",
    "enable_ft_",
    "enable_one_logger",
    "ft_",
    "inprocess_",
    "log_",
    "nccl_",
    "no_load_",
    "no_save_",
    "non_persistent_",
    "one_logger_",
    "overlap_",
    "profile_",
    "replication",
    "save_",
    "straggler_",
    "tensorboard_",
    "timing_log_",
    "tp_comm_",
    "use_dist_ckpt",
    "wandb_",
});

}  // namespace

bool describes_training(std::string_view arg) {
    const auto is_among = [&](const auto& names) { return std::ranges::find(names, arg) != names.end(); };
    const auto begins = [&](std::string_view prefix) { return arg.starts_with(prefix); };
    return !is_among(layout) && !is_among(storage) && !is_among(running) && std::ranges::none_of(prefixes, begins);
}

}  // namespace tpx::formats::megatron
