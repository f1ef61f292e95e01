// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/conversion.hpp"

#include "formats/driver.hpp"
#include "formats/megatron/fit_masters.hpp"
#include "formats/megatron/hybrid_pattern.hpp"
#include "formats/megatron/model_check.hpp"
#include "formats/megatron/rank_files.hpp"
#include "formats/megatron/unpack_optimizer.hpp"
#include "formats/settings/model_config.hpp"
#include "formats/state/common_state.hpp"
#include "formats/state/rng_states.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"

#include <fmt/format.h>

namespace tpx::formats::megatron {
namespace {

constexpr const char* distributed_optimizer_key = "use_distributed_optimizer";

/// Removes from `args` what would override settings of the model, such as dropout, that only the args stored in DCP
/// contain.
void keep_args(const Source& source, const Target& target, const ExpressedState& expressed, const Config& config,
               Config& args) {
    const Config of_layout = make_args(expressed, target.layout, config, false);
    for (const auto& [key, value] : args_of(*source.checkpoint.common))
        if (!of_layout.contains(key)) args.erase(key);
}

}  // namespace

void complete_target(Target& target) {
    if (target.layout.fsdp > 1)
        throw Error{Exit::usage,
                    "layout: fsdp={}: Megatron stores tensors whole over data-parallel ranks; give dp= instead",
                    target.layout.fsdp};
    if (target.layout.zero == 0) return;
    if (target.layout.zero > 1)
        throw Error{Exit::usage, "layout: zero={}: Megatron shards optimizer state only as zero=1 does",
                    target.layout.zero};
    if (target.config.contains(distributed_optimizer_key) && !holds(target.config, distributed_optimizer_key))
        throw Error{Exit::usage, "layout: zero=1 contradicts --set {}=false", distributed_optimizer_key};
    target.config[distributed_optimizer_key] = true;
}

void complete_config(Source& source, const Target& target, bool renames, Config& config) {
    const bool from_megatron = source.checkpoint.format->has_args;
    if (!from_megatron && source.checkpoint.common) {
        const Config args = args_of(*source.checkpoint.common);
        for (const char* key : {"make_vocab_size_divisible_by", "transformer_impl"})
            if (const auto kept = args.find(key); kept != args.end()) config.insert(*kept);  // keeps what is set
    }
    // Optimizer state that another framework sharded over data-parallel ranks is most like that of a distributed
    // optimizer.
    if (renames && !target.config.contains(distributed_optimizer_key)) config[distributed_optimizer_key] = true;
    if (from_megatron && !target.format->has_rank_names && target.config.contains(distributed_optimizer_key))
        rename_masters(source.checkpoint, holds(target.config, distributed_optimizer_key));
}

Config args_of_target(const Source& source, const Target& target, const ExpressedState& expressed, bool renames,
                      bool has_adam, const Config& config) {
    const bool has_args = source.checkpoint.config.contains("num_layers") && source.reading.source() == "mcore";
    if (renames && !has_args) check_model(expressed, config);
    Config args = make_args(expressed, target.layout, config, renames && !has_args);
    if (renames && !source.checkpoint.format->has_args && source.checkpoint.common)
        keep_args(source, target, expressed, config, args);
    if (renames && has_args) args.insert(source.checkpoint.config.begin(), source.checkpoint.config.end());
    if (source.checkpoint.format->has_args && source.checkpoint.common)
        remove_layer_kinds(args, args_of(*source.checkpoint.common));
    if (has_adam || target.config.contains(distributed_optimizer_key))
        args[distributed_optimizer_key] = config.at(distributed_optimizer_key);
    for (const auto& [key, value] : target.config)
        if (is_writing_setting(key) && key != "pipeline_model_parallel_layout") args[key] = value;
    const bool from_others = source.checkpoint.format != target.format && source.checkpoint.common;
    if (!target.format->has_rank_names && from_others) {
        args["ckpt_format"] = std::string{target.format->name};
        args["use_dist_ckpt"] = true;
    }
    return args;
}

void note_dropped(const Source& source, const Target& target, bool, std::vector<std::string>& notes) {
    if (!source.checkpoint.rank_files) return;
    std::vector<std::string> extra;
    for (const RankDirectory& directory : source.checkpoint.rank_files->directories)
        extra.insert(extra.end(), directory.extra_states.begin(), directory.extra_states.end());
    if (!extra.empty())
        notes.push_back(fmt::format("dropped {}, so FP8 scaling starts over ('{}'{})",
                                    counted(extra.size(), "TransformerEngine extra state"), extra[0],
                                    extra.size() > 1 ? ", ..." : ""));
    if (!target.format->has_args && target.format->values != ValueStorage::objects)
        notes.emplace_back("dropped RNG states, if any");
}

void note_new_rng(const Source& source, const Layout& layout, std::vector<std::string>& notes) {
    const RngStates states{source.checkpoint};
    if (!states.empty() && !states.has_all(layout))
        notes.emplace_back("new ranks reuse another rank's RNG state with a different seed");
}

void check_model_layout(const Layout& layout) {
    Target target{.layout = layout};
    complete_target(target);
    if (layout.vn > 0) throw Error{Exit::usage, "layout: vn={}: Megatron has no virtual nodes", layout.vn};
}

void adapt_states(ExpressedState& expressed, const Config& config, std::optional<DType> dtype,
                  std::vector<std::string>& notes) {
    fit_masters(expressed, holds(config, distributed_optimizer_key), dtype, notes);
}

}  // namespace tpx::formats::megatron
