// SPDX-License-Identifier: Apache-2.0
#include "formats/open_source.hpp"

#include "formats/convert/unknown_tensors.hpp"
#include "formats/driver.hpp"
#include "formats/quantized/weight_parts.hpp"
#include "formats/settings/config_file.hpp"
#include "formats/settings/pipeline_stages.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"
#include "lib/core/in_path.hpp"
#include "lib/layout/shard_map.hpp"

#include <algorithm>

namespace tpx::formats {
namespace {

/// Sets the pipeline stages of layers from Megatron's args, because tensors do not record them. Ignores invalid args.
void set_uneven_stages(Source& source) {
    const Reading& reading = source.reading;
    if (!source.layout || !reading.family) return;
    const int count = layers(reading, source.checkpoint.catalogue.tensors);
    try {
        Layout dealt = *source.layout;
        megatron::set_stages(reading.config, count, dealt);
        stages_of_layers(dealt, count);
        source.layout = dealt;
    } catch (const Error&) {
    }
}

/// Megatron's distributed optimizer is equivalent to ZeRO 1.
void set_zero(Source& source) {
    const auto is_state = [](const Meaning& meaning) {
        return meaning.kind == Meaning::Kind::parameter && meaning.role != Role::weight;
    };
    if (source.layout && source.checkpoint.format->has_args && source.layout->dp * source.layout->cp > 1 &&
        holds(source.reading.config, "use_distributed_optimizer") &&
        std::ranges::any_of(source.reading.meanings, is_state))
        source.layout->zero = 1;
}

}  // namespace

Source open_source(const std::filesystem::path& path, const Families& families, const Config& config,
                   MissingFiles missing) {
    Source source{.checkpoint = open(path, missing), .reading = {}, .layout = {}, .families = families};
    const auto given = config.find(config_json_key);
    if (given != config.end() && source.checkpoint.config_json.empty())
        source.checkpoint.config_json = value_text(given->second);
    // Megatron's checkpoints without args, such as those of adapters, may have the config.json that tpx wrote.
    if (source.checkpoint.format->has_args && !source.checkpoint.config.contains("num_layers") &&
        !source.checkpoint.config_json.empty())
        source.checkpoint.config.merge(parse_config_json(source.checkpoint.config_json));
    Config merged = source.checkpoint.config;
    for (const auto& [key, value] : config) {
        if (key == config_json_key) continue;
        // For settings of how a checkpoint is written, args describe this one; the user's value is for the new one.
        if (!is_writing_setting(key) || !merged.contains(key)) merged[key] = value;
    }
    in_path(path.string(), [&] {
        if (const auto complete = source.checkpoint.format->complete) complete(source.checkpoint, families, merged);
        source.reading = read_by_names(source.checkpoint, families, merged);
    });
    read_weight_parts(source);
    note_unknown(source);
    source.layout = source.checkpoint.layout;
    if (!source.layout) {
        source.layout =
            detect_layout(source.checkpoint.catalogue, source.reading, cutting_of(source.checkpoint.format));
        if (source.checkpoint.format->has_args) set_uneven_stages(source);
    }
    set_zero(source);
    return source;
}

}  // namespace tpx::formats
