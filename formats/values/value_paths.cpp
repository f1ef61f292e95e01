// SPDX-License-Identifier: Apache-2.0
#include "formats/values/value_paths.hpp"

#include "formats/settings/training_args.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

namespace tpx::formats {
namespace {

constexpr auto bookkeeping = std::to_array<std::string_view>({
    // torch and Lightning
    "_metadata",
    "tpx_made_from",
    "params",
    "param_names",
    "pytorch-lightning_version",
    // Megatron
    "checkpoint_version",
    "content_metadata",
    "fp32_from_fp16_params",
    "param_state",
    "param_state_sharding_type",
    // DeepSpeed
    "buffer_names",
    "checkpoint_parallel_dimensions",
    "dp_world_size",
    "ds_version",
    "fp32_flat_groups",
    "fp32_groups",
    "fp32_groups_flat",
    "frozen_param_fragments",
    "frozen_param_shapes",
    "group_paddings",
    "mp_world_size",
    "param_alignment_paddings",
    "param_shapes",
    "param_slice_mappings",
    "partition_count",
    "shared_params",
    "single_partition_of_fp32_groups",
    "sparse_tensor_module_names",
    "universal_checkpoint_info",
    "zero_stage",
});

/// Entries of DeepSpeed's configuration that follow from the layout or concern reading, writing and logging.
constexpr auto layout_of_config = std::to_array<std::string_view>({
    "aio",
    "checkpoint",
    "comms_logger",
    "csv_monitor",
    "flops_profiler",
    "nebula",
    "steps_per_print",
    "tensorboard",
    "train_batch_size",
    "wall_clock_breakdown",
    "wandb",
    "zero_allow_untested_optimizer",
    "zero_optimization",
});

/// Settings of how an optimizer computes, and those that repeat others: max_lr is compared as initial_lr.
constexpr auto computation = std::to_array<std::string_view>(
    {"capturable", "default_config", "differentiable", "foreach", "fused", "is_expert_parallel", "name", "max_lr"});

/// Settings that are compared parameter by parameter.
constexpr auto of_parameters = std::to_array<std::string_view>({"betas", "eps", "initial_lr", "lr", "weight_decay"});

/// The keys by which Megatron distinguishes groups, and the parameters themselves.
constexpr auto identities = std::to_array<std::string_view>(
    {"default_config", "is_decoupled_lr", "is_expert_parallel", "lr_mult", "params", "wd_mult"});

constexpr auto containers = std::to_array<std::string_view>(
    {"optim", "optimizer", "optimizer_state_dict", "optimizer_states", "optimizers", "base_optimizer_state"});

bool is_among(std::span<const std::string_view> words, std::string_view word) {
    return std::ranges::find(words, word) != words.end();
}

bool is_number(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::vector<std::string_view> parts_of(std::string_view path) {
    std::vector<std::string_view> parts;
    while (true) {
        const std::size_t dot = path.find('.');
        parts.push_back(path.substr(0, dot));
        if (dot == path.npos) return parts;
        path.remove_prefix(dot + 1);
    }
}

bool contains(std::string_view text, std::string_view word) { return text.find(word) != text.npos; }

/// Whether `key` names a part of the model, whose extra states have names of any kind.
bool is_module(std::string_view key) {
    return key.starts_with("model") || key.starts_with("decoder") || key.starts_with("encoder");
}

std::string_view role_of_key(std::string_view key) {
    if (key.starts_with("rerun_state_machine")) return "rerun";
    if (key.ends_with("args") || key.ends_with("config") || key.starts_with("hparams") ||
        key.starts_with("hyper_parameters"))
        return "args";
    if (is_module(key)) return "extra";
    if (contains(key, "sched")) return "scheduler";
    if (contains(key, "rng") || contains(key, "random")) return "rng";
    if (contains(key, "optim") || contains(key, "scaler") || contains(key, "loss_scale") ||
        contains(key, "param_groups") || key == "amp" || key == "overflow" || key == "clip_grad")
        return "settings";
    if (contains(key, "data") || contains(key, "sampler") || contains(key, "loader")) return "data";
    constexpr auto counters =
        std::to_array<std::string_view>({"iter", "epoch", "step", "sample", "tokens", "train_state",
                                         "num_floating_point_operations_so_far", "loops", "progress", "best_"});
    const bool counts = std::ranges::any_of(counters, [&](std::string_view word) { return contains(key, word); });
    return counts ? "counters" : "extra";
}

/// The role of the first key that has one; keys before it may be a script's own names.
std::string_view role_of(const std::vector<std::string_view>& parts) {
    for (const std::string_view part : parts) {
        const std::string_view role = role_of_key(part);
        if (role != "extra" || is_module(part)) return role;
    }
    return "extra";
}

/// The values of settings and counters that a checkpoint does not store.
constexpr auto defaults = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"global_samples", "0"},
    {"global_steps", "0"},
    {"iteration", "0"},
    {"skipped_steps", "0"},
    {"dynamic_loss_scale", "False"},
    {"loss_scaler.cur_scale", "1.0"},
    {"loss_scaler.dynamic", "False"},
    {"overflow", "False"},
    {"param_groups.amsgrad", "False"},
    {"param_groups.bias_correction", "True"},
    {"param_groups.decoupled_weight_decay", "True"},
    {"param_groups.maximize", "False"},
});

ValuePath setting(const std::vector<std::string_view>& parts) {
    std::size_t begin = 0;
    for (std::size_t k = 0; k + 1 < parts.size(); ++k)
        if (is_among(containers, parts[k]) || (k == begin && is_number(parts[k]))) begin = k + 1;
    return {"settings",
            fmt::format("{}", fmt::join(parts.begin() + static_cast<std::ptrdiff_t>(begin), parts.end(), ".")), true};
}

}  // namespace

bool is_bookkeeping(std::string_view path) {
    const std::vector<std::string_view> parts = parts_of(path);
    const std::string_view last = parts.back();
    if (is_among(bookkeeping, last) || (last == "rank" && parts.size() == 1)) return true;
    if (parts[0] == "checkpoint_parallel_dimensions") return true;  // DCP stores each entry of the dict
    if (parts[0] == "args" && parts.size() > 1) return !megatron::describes_training(parts[1]);
    if (parts[0] == "config") return false;
    if (parts[0] == "ds_config" && parts.size() > 1) return is_among(layout_of_config, parts[1]);
    if (role_of(parts) != "settings") return false;
    if (path.starts_with("optimizer.distributed.")) return true;  // buckets, which were unpacked
    const bool of_groups = std::ranges::find(parts, "param_groups") != parts.end();
    if (of_groups) return is_among(computation, last) || is_among(of_parameters, last);
    return false;
}

bool is_default(std::string_view path, std::string_view text) {
    if (text == "None" || text == "null" || text == "{}" || text == "[]") return true;
    return std::ranges::find(defaults, std::pair{path, text}) != defaults.end();
}

ValuePath classify(std::string_view path) {
    const std::vector<std::string_view> parts = parts_of(path);
    const std::string_view role = role_of(parts);
    if (role != "settings") return {role, std::string{path}, false};
    const bool of_groups = std::ranges::find(parts, "param_groups") != parts.end();
    if (parts.back() == "step" && (of_groups || std::ranges::find(parts, "state") != parts.end()))
        return {"step", "step", true};
    if (of_groups) return {role, fmt::format("param_groups.{}", parts.back()), true};
    return setting(parts);
}

std::optional<GroupPath> group_path(std::string_view path) {
    constexpr std::string_view word = "param_groups.";
    const std::size_t at = path.starts_with(word) ? 0 : path.find(".param_groups.") + 1;
    const std::size_t last = path.rfind('.');
    if ((at == 0 && !path.starts_with(word)) || last < at + word.size()) return std::nullopt;
    const GroupPath found{path.substr(0, at == 0 ? 0 : at - 1), path.substr(at + word.size(), last - at - word.size()),
                          path.substr(last + 1)};
    // A scheduler's initial rate is max_lr in Megatron, initial_lr in PyTorch.
    if (found.key == "max_lr") return GroupPath{found.optimizer, found.group, "initial_lr"};
    const bool skipped = is_among(computation, found.key) && !is_among(identities, found.key);
    if (skipped || found.key == "param_names") return std::nullopt;
    return found;
}

bool is_parameter_setting(std::string_view key) { return is_among(of_parameters, key); }

bool identifies_group(std::string_view key) { return is_among(identities, key); }

}  // namespace tpx::formats
