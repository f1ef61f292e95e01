// SPDX-License-Identifier: Apache-2.0
#include "formats/quantized/quantization_settings.hpp"

#include "formats/settings/model_config.hpp"
#include "lib/core/lower_case.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <initializer_list>

namespace tpx::formats {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 2> quantization_keys{"quantization_config", "compression_config"};
constexpr std::array<const char*, 2> dtype_keys{"dtype", "torch_dtype"};

/// The member `key` of `json`; null where there is none.
Json member(const Json& json, const char* key) {
    return json.is_object() && json.contains(key) ? json.at(key) : Json{};
}

Json quantization_of(const Json& config) {
    for (const Json& place : {config, member(config, "text_config")})
        for (const char* key : quantization_keys)
            if (Json found = member(place, key); found.is_object()) return found;
    return {};
}

std::optional<std::pair<Index, Index>> block_of(const Json& json) {
    constexpr std::int64_t largest = std::int64_t{1} << 40;  // sizes of scales cannot overflow
    const auto is_size = [](const Json& size) {
        return size.is_number_integer() && size.get<std::int64_t>() > 0 && size.get<std::int64_t>() <= largest;
    };
    if (!json.is_array() || json.size() != 2 || !is_size(json[0]) || !is_size(json[1])) return std::nullopt;
    return std::pair{json[0].get<Index>(), json[1].get<Index>()};
}

/// The first of `keys` that `json` has as a positive number.
std::optional<Index> number_of(const Json& json, std::initializer_list<const char*> keys) {
    for (const char* key : keys)
        if (const Json found = member(json, key); found.is_number_integer() && found.get<std::int64_t>() > 0)
            return found.get<Index>();
    return std::nullopt;
}

std::optional<DType> dtype_of(const Json& config) {
    for (const Json& place : {config, member(config, "text_config")})
        for (const char* key : dtype_keys)
            if (const Json found = member(place, key); found.is_string())
                if (const auto dtype = dtype_by_torch(found.get<std::string>()); dtype && is_real(*dtype)) return dtype;
    return std::nullopt;
}

}  // namespace

bool is_quantization_setting(std::string_view key) {
    return std::ranges::any_of(quantization_keys, [&](std::string_view section) {
        return key.starts_with(section) && key.substr(section.size()).starts_with('.');
    });
}

QuantizationSettings quantization_settings(const std::string& config_json) {
    const Json config = Json::parse(config_json, nullptr, false);
    const Json quantization = quantization_of(config);
    QuantizationSettings settings;
    const auto take_block = [&](const Json& block) {
        if (!settings.block) settings.block = block_of(block);
        if (!block.is_null() && !block_of(block)) settings.malformed_block = block.dump();
    };
    take_block(member(quantization, "weight_block_size"));
    settings.dtype = dtype_of(config);
    if (const Json method = member(quantization, "quant_method"); method.is_string()) settings.method = method;
    for (const char* key : {"checkpoint_format", "version"})
        if (const Json packing = member(quantization, key); packing.is_string()) settings.packing_format = packing;
    settings.packing_format = lower_case(settings.packing_format);
    settings.bits = number_of(quantization, {"bits", "w_bit"});
    settings.group_size = number_of(quantization, {"group_size", "q_group_size"});
    std::vector<Json> symmetric{member(quantization, "sym")};
    for (const auto& group : member(quantization, "config_groups")) {
        const Json weights = member(group, "weights");
        take_block(member(weights, "block_structure"));
        symmetric.push_back(member(weights, "symmetric"));
    }
    std::erase_if(symmetric, [](const Json& value) { return !value.is_boolean(); });
    if (!symmetric.empty() && std::ranges::all_of(symmetric, [&](const Json& value) { return value == symmetric[0]; }))
        settings.symmetric = symmetric[0].get<bool>();
    return settings;
}

std::string without_quantization(const std::string& config_json, DType dtype) {
    Json config = Json::parse(config_json, nullptr, false);
    if (!config.is_object()) return config_json;
    for (const char* key : quantization_keys) {
        config.erase(key);
        if (member(config, "text_config").is_object()) config["text_config"].erase(key);
    }
    return with_dtype(config.dump(2) + "\n", dtype);
}

std::string with_fp8_blocks(const std::string& config_json, Index block, const std::vector<std::string>& modules) {
    Json config = Json::parse(config_json, nullptr, false);
    if (!config.is_object()) return config_json;
    config["quantization_config"] = {{"quant_method", "fp8"},
                                     {"fmt", "e4m3"},
                                     {"activation_scheme", "dynamic"},
                                     {"weight_block_size", {block, block}},
                                     {"modules_to_not_convert", modules}};
    return config.dump(2) + "\n";
}

}  // namespace tpx::formats
