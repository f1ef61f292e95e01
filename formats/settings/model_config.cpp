// SPDX-License-Identifier: Apache-2.0
#include "formats/settings/model_config.hpp"

#include "formats/settings/config_file.hpp"
#include "formats/settings/pipeline_stages.hpp"
#include "lib/layout/config_mismatch.hpp"
#include "lib/layout/dims.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

namespace tpx::formats {
namespace {

constexpr const char* pipeline_words = "pipeline_model_parallel_layout";

/// Megatron's pipeline layout text for layers that are assigned chunk by chunk: the source's if it has the same stages.
ConfigValue words_of_stages(const Layout& layout, const Config& config, const Config& args) {
    if (layout.stages.empty()) return nullptr;
    const auto known = config.find(pipeline_words);
    if (known != config.end() && std::holds_alternative<std::string>(known->second) &&
        megatron::parse_stages(std::get<std::string>(known->second)) == layout.stages)
        return known->second;
    const auto prediction = integer(args.contains("mtp_num_layers") ? args : config, "mtp_num_layers").value_or(0);
    return megatron::stages_text(layout.stages, static_cast<int>(std::clamp<std::int64_t>(prediction, 0, 1 << 10)));
}

/// The entries of Megatron's args that describe the new layout.
Config layout_args(const Layout& layout, const ExpressedState& expressed) {
    const auto whole_number = [](int value) { return ConfigValue{std::int64_t{value}}; };
    const auto or_none = [](int value, bool some) {
        return some ? ConfigValue{std::int64_t{value}} : ConfigValue{nullptr};
    };
    Config args{{"tensor_model_parallel_size", whole_number(layout.tp)},
                {"pipeline_model_parallel_size", whole_number(layout.pp)},
                {"virtual_pipeline_model_parallel_size", or_none(layout.vpp, layout.vpp > 1)},
                // Virtual stages are set by only one of these two keys, or by the pipeline layout text.
                {"num_virtual_stages_per_pipeline_rank", or_none(layout.vpp, layout.vpp > 1 && layout.stages.empty())},
                {"num_layers_per_virtual_pipeline_stage", nullptr},
                {"use_tp_pp_dp_mapping", layout.order == "tp-cp-ep-pp-dp"},
                {"context_parallel_size", whole_number(layout.cp)},
                {"expert_model_parallel_size", whole_number(layout.ep)},
                {"expert_tensor_parallel_size", whole_number(layout.etp > 0 ? layout.etp : layout.tp)},
                {"data_parallel_size", whole_number(layout.dp)},
                {"world_size", whole_number(layout.ranks())},
                {"transformer_pipeline_model_parallel_size", whole_number(layout.pp)},
                {"decoder_first_pipeline_num_layers", or_none(layout.first.value_or(0), layout.first.has_value())},
                {"decoder_last_pipeline_num_layers", or_none(layout.last.value_or(0), layout.last.has_value())},
                {"account_for_embedding_in_pipeline_split", false},
                {"account_for_loss_in_pipeline_split", false}};
    for (std::size_t t = 0; t < expressed.tensors.size(); ++t) {
        const Meaning& meaning = expressed.reading.meanings[t];
        if (meaning.kind == Meaning::Kind::parameter && meaning.role == Role::weight &&
            meaning.rule->expression.parts[0] == "embed")
            args["padded_vocab_size"] = ConfigValue{expressed.tensors[t].shape[0]};
    }
    return args;
}

/// The comma-separated words of `text` as a list.
nlohmann::ordered_json words_of(std::string_view text) {
    auto words = nlohmann::ordered_json::array();
    for (std::size_t comma = 0; comma != text.npos;) {
        comma = text.find(',');
        words.push_back(text.substr(0, comma));
        if (comma != text.npos) text.remove_prefix(comma + 1);
    }
    return words;
}

nlohmann::ordered_json to_json(const ConfigSetting& setting) {
    nlohmann::ordered_json value;
    std::visit([&](const auto& v) { value = v; }, setting.value);
    if (!setting.list) return value;
    if (const auto numbers = whole_numbers(setting.value)) return *numbers;
    const auto* text = std::get_if<std::string>(&setting.value);
    return text ? words_of(*text) : nlohmann::ordered_json::array({value});
}

}  // namespace

std::optional<std::vector<std::int64_t>> whole_numbers(const ConfigValue& value) {
    const auto* text = std::get_if<std::string>(&value);
    if (!text || text->find_first_not_of("0123456789,-") != std::string::npos) return std::nullopt;
    std::vector<std::int64_t> numbers;
    const char* at = text->data();
    const char* const end = at + text->size();
    while (at < end) {
        std::int64_t number = 0;
        const auto [stop, code] = std::from_chars(at, end, number);
        if (code != std::errc{} || (stop < end && *stop != ',')) return std::nullopt;
        numbers.push_back(number);
        at = stop < end ? stop + 1 : end;
    }
    return numbers;
}

std::string make_config_json(const ExpressedState& expressed, const Config& config) {
    const auto settings = configuration_for(expressed, "hf", config);
    if (settings.empty()) return "";
    nlohmann::ordered_json json;
    for (const ConfigSetting& setting : settings) {
        const std::size_t dot = setting.key.find('.');
        if (dot == setting.key.npos)
            json[setting.key] = to_json(setting);
        else
            json[setting.key.substr(0, dot)][setting.key.substr(dot + 1)] = to_json(setting);
    }
    if (const auto dtype = most_common_dtype(expressed.reading, expressed.tensors)) json["dtype"] = info(*dtype).torch;
    // With architectures, transformers would use its defaults for settings that are unknown.
    if (!missing_settings(expressed, parse_config_json(json.dump())).empty()) json.erase("architectures");
    return json.dump(2) + "\n";
}

std::optional<DType> most_common_dtype(const Reading& reading, std::span<const Tensor> tensors) {
    std::map<DType, Index> elements;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const Meaning& meaning = reading.meanings[t];
        const bool weight = meaning.role == Role::weight && meaning.kind != Meaning::Kind::extra;
        if (weight && is_real(tensors[t].dtype)) elements[tensors[t].dtype] += volume(tensors[t].shape);
    }
    const auto most = std::ranges::max_element(elements, {}, [](const auto& entry) { return entry.second; });
    return most == elements.end() ? std::nullopt : std::optional{most->first};
}

std::string with_dtype(const std::string& config_json, DType dtype) {
    auto json = nlohmann::ordered_json::parse(config_json);
    for (const char* key : {"dtype", "torch_dtype"}) {
        if (json.contains(key)) json[key] = info(dtype).torch;
    }
    return json.dump(2) + "\n";
}

std::string with_settings(const std::string& config_json, const Config& settings) {
    auto json = nlohmann::ordered_json::parse(config_json);
    // A key may exist both in the outer configuration and in the nested one of the language model: it is skipped if the
    // nested one already has the value.
    const Config own = parse_config_json(config_json);
    bool changed = false;
    for (auto& [key, value] : json.items()) {
        const auto setting = settings.find(key);
        if (setting == settings.end() || !(value.is_primitive() || value.is_null())) continue;
        if (const auto same = own.find(key); same != own.end() && same->second == setting->second) continue;
        const nlohmann::ordered_json given = to_json({key, setting->second});
        changed |= given != value;
        value = given;
    }
    return changed ? json.dump(2) + "\n" : config_json;
}

Config make_args(const ExpressedState& expressed, const Layout& layout, const Config& config, bool with_model) {
    Config args = layout_args(layout, expressed);
    const auto settings = with_model ? configuration_for(expressed, "mcore", config) : std::vector<ConfigSetting>{};
    for (const ConfigSetting& setting : settings) {
        args[setting.key] = setting.value;
        if (!setting.list || !whole_numbers(setting.value)) continue;
        const auto& numbers = std::get<std::string>(setting.value);
        args[setting.key] = setting.tuple ? fmt::format("({})", numbers) : fmt::format("[{}]", numbers);
    }
    args[pipeline_words] = words_of_stages(layout, config, args);
    return args;
}

}  // namespace tpx::formats
