// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/driver.hpp"

#include "formats/deepspeed/adam.hpp"
#include "formats/deepspeed/deepspeed.hpp"
#include "formats/deepspeed/frozen_parameters.hpp"
#include "formats/deepspeed/masters.hpp"
#include "formats/deepspeed/partition_shares.hpp"
#include "formats/deepspeed/replicas.hpp"
#include "formats/encodings/torch/text.hpp"
#include "formats/recognize.hpp"
#include "formats/source.hpp"
#include "lib/core/error.hpp"
#include "lib/core/utf8.hpp"

#include <array>

namespace tpx::formats {
namespace {

std::optional<RecognizedPath> recognize_deepspeed(const std::filesystem::path& folder) {
    const DeepSpeedStep step = find_deepspeed(folder);
    if (step.step.empty()) return std::nullopt;
    if (step.universal) return RecognizedPath{folder, &universal_driver, "a DeepSpeed universal checkpoint"};
    return RecognizedPath{folder, &deepspeed_driver, "a DeepSpeed checkpoint"};
}

Checkpoint open_step(const std::filesystem::path& path, MissingFiles) { return open_deepspeed(path); }

void check_deepspeed_source(const Source& source, const Target&) {
    if (source.checkpoint.format->has_param_groups) return;
    throw Error{Exit::usage,
                "--format deepspeed: the order of parameters in DeepSpeed's flat buffers is unknown for a source "
                "in {} format; "
                "use --format universal, which stores parameters by name, and load that (\"checkpoint\": "
                "{{\"load_universal\": true}})",
                name(source.checkpoint.format)};
}

void check_universal_layout(const Source& source, const Target& target) {
    const Layout& layout = target.layout;
    if (source.checkpoint.format->has_param_groups) return;
    if (layout.tp > 1 || layout.pp > 1 || layout.ep > 1 || layout.fsdp > 1)
        throw Error{Exit::usage,
                    "layout: universal checkpoints are not split; use --to tp=1, or --to zero=3 for ZeRO 3 engines"};
}

void check_deepspeed_model(const Layout& layout) {
    const auto refuse = [&](std::string_view why) {
        throw Error{Exit::usage, "layout: {}: {}", to_string(layout), why};
    };
    if (layout.tp > 1 || layout.pp > 1 || layout.cp > 1 || layout.ep > 1)
        refuse("--format deepspeed with --model supports data parallelism only; use dp= and zero=");
    if (layout.fsdp > 1) refuse("DeepSpeed shards parameters as zero=3 does; give zero=3 instead of fsdp=");
    if (layout.vn > 0) refuse("DeepSpeed has no virtual nodes");
}

/// Why `name` cannot be a folder name; empty if it can.
std::string_view unfit_folder(std::string_view name) {
    constexpr std::size_t longest = 255;  // in nearly all file systems
    if (name.empty() || name == "." || name == "..") return "is not a folder name";
    if (name.find('/') != name.npos) return "has a '/', which no folder's name can have";
    if (name.find('\0') != name.npos) return "has a NUL, which no folder's name can have";
    if (name.size() > longest) return "has more than 255 bytes, which no folder's name can have";
    return {};
}

/// Optimizer state PARAMETER/STATE is stored in a folder PARAMETER.
std::string_view reject_universal_name(std::string_view name) {
    if (!is_valid_utf8(name)) return "has a name that is not UTF-8";
    return name.find('/') == name.npos ? "" : unfit_folder(name.substr(0, name.rfind('/')));
}

Draft draft_any_universal(const Content& content, std::vector<std::string>& notes) {
    const bool own = content.source != nullptr && content.source->format->has_param_groups;
    return own ? draft_universal(content, notes) : make_universal(content, notes);
}

/// Adds a note about the engine's configuration, which other frameworks cannot use.
void note_dropped_configuration(const Source&, const Target& target, bool, std::vector<std::string>& notes) {
    if (target.format->stores_any_value())
        notes.emplace_back("dropped the configuration of DeepSpeed's engine (ds_config, clip_grad)");
}

/// The user's settings for the new checkpoint.
Config settings_of_target(const Source&, const Target& target, const ExpressedState&, bool, bool, const Config&) {
    return target.config;
}

constexpr std::array<std::string_view, 1> deepspeed_aliases{"zero"};

}  // namespace

constinit const Driver deepspeed_driver{
    .name = "deepspeed",
    .title = "DeepSpeed ZeRO 1 to 3, BF16 optimizer, pipelines, tensor parallel, experts",
    .framework = "DeepSpeed",
    .aliases = deepspeed_aliases,
    .written = WritableFrom::own_framework,
    .knows_optimizer = true,
    .keeps_values = true,
    .is_resharded = true,
    .values = ValueStorage::engine_files,
    .model_dialect = "hf",
    .state_names = StateNames::by_folder,
    .has_module_names = true,
    .keeps_masters = true,
    .has_param_groups = true,
    .has_flat_partitions = true,
    .precedence = 40,
    .recognize_folder = recognize_deepspeed,
    .open = open_step,
    .check_target = check_deepspeed_source,
    .check_model_layout = check_deepspeed_model,
    .reject_name = torch::reject_name,
    .draft = draft_deepspeed,
    .adam = [](const Source& source) { return deepspeed::adam_of_step(source.checkpoint.catalogue.directory); },
    .check_complete = check_frozen_parameters,
    .stores_masters_only = deepspeed::stores_masters_only,
    .set_weight_dtypes = deepspeed::set_weight_dtypes,
    .note_dropped = note_dropped_configuration,
    .make_args = settings_of_target,
    .state_shares = [](const Content& content, const Config&,
                       std::span<const Role> roles) { return deepspeed::partition_shares(content, roles); },
    .with_replicas = deepspeed::with_replicas,
};

constinit const Driver universal_driver{
    .name = "universal",
    .title = "DeepSpeed universal checkpoint (ZeRO 1 to 3)",
    .framework = "DeepSpeed",
    .written = WritableFrom::any,
    .knows_optimizer = true,
    .keeps_values = true,
    .values = ValueStorage::engine_files,
    .dialect = "hf",
    .state_names = StateNames::by_folder,
    .has_module_names = true,
    .keeps_masters = true,
    .has_param_groups = true,
    .precedence = 40,
    .open = open_step,
    .check_target = check_universal_layout,
    .reject_name = reject_universal_name,
    .draft = draft_any_universal,
    .adam = [](const Source& source) { return deepspeed::adam_of_step(source.checkpoint.catalogue.directory); },
    .check_complete = check_frozen_parameters,
    .stores_masters_only = deepspeed::universal_stores_masters_only,
    .set_weight_dtypes = deepspeed::set_weight_dtypes,
    .note_dropped = note_dropped_configuration,
    .make_args = settings_of_target,
};

}  // namespace tpx::formats
