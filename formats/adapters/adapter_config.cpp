// SPDX-License-Identifier: Apache-2.0
#include "formats/adapters/adapter_config.hpp"

#include "formats/adapters/adapter_settings.hpp"
#include "formats/driver.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "lib/layout/adapter_family.hpp"
#include "lib/layout/dims.hpp"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

constexpr const char* alpha_setting = "lora_alpha";
constexpr const char* run_config_name = "run_config.yaml";
constexpr std::size_t largest_run_config = std::size_t{16} << 20;

/// The text between the last dot before `ending` and it: "q_proj" of "...self_attn.q_proj.lora_A.weight".
std::string module_before(std::string_view name, std::string_view ending) {
    name.remove_suffix(ending.size());
    return std::string{name.substr(name.rfind('.') + 1)};
}

double parse_alpha(std::string_view text) {
    double alpha = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), alpha);
    if (fault != std::errc{} || end != text.data() + text.size() || !std::isfinite(alpha))
        throw failure("{}: peft.alpha is '{}', not a number; pass --set {}=N", run_config_name, text, alpha_setting);
    return alpha;
}

/// The value of `peft: alpha:` in a YAML file that Megatron Bridge wrote.
std::optional<double> alpha_of_run_config(const fs::path& file) {
    if (!path_is_file(file)) return std::nullopt;
    constexpr std::string_view key = "  alpha:";
    constexpr const char* blank = " \t\r";
    std::istringstream lines{read_file(file, largest_run_config)};
    bool inside = false;
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with(' ')) inside = line.starts_with("peft:");
        if (!inside || !line.starts_with(key)) continue;
        const std::size_t begin = line.find_first_not_of(blank, key.size());
        if (begin == line.npos) return std::nullopt;
        return parse_alpha(std::string_view{line}.substr(begin, line.find_last_not_of(blank) + 1 - begin));
    }
    return std::nullopt;
}

std::optional<double> alpha_of(const Source& source, const Config& config) {
    const auto told = config.find(alpha_setting);
    if (told != config.end()) {
        if (const auto* whole = std::get_if<std::int64_t>(&told->second)) return static_cast<double>(*whole);
        if (const auto* real = std::get_if<double>(&told->second)) return *real;
    }
    return alpha_of_run_config(source.checkpoint.catalogue.directory / run_config_name);
}

/// The adapter_config.json for `tensors`.
std::string peft_config(std::span<const Tensor> tensors, double alpha) {
    constexpr std::string_view ending = ".lora_A.weight";
    constexpr std::string_view wrapper = "base_model.model.";
    std::set<std::string> modules;
    std::map<std::string, Index> ranks;
    std::map<Index, int> count;
    for (const Tensor& tensor : tensors) {
        if (!tensor.name.ends_with(ending)) continue;
        modules.insert(module_before(tensor.name, ending));
        ranks[tensor.name.substr(wrapper.size(), tensor.name.size() - wrapper.size() - ending.size())] =
            tensor.shape[0];
        ++count[tensor.shape[0]];
    }
    const auto usual = std::ranges::max_element(count, {}, [](const auto& entry) { return entry.second; });
    nlohmann::ordered_json pattern = nlohmann::ordered_json::object();
    for (const auto& [module, rank] : ranks)
        if (rank != usual->first) pattern[module] = rank;
    nlohmann::ordered_json json{{"peft_type", "LORA"}, {"task_type", "CAUSAL_LM"}};
    json["base_model_name_or_path"] = "";
    json["bias"] = "none";
    json["fan_in_fan_out"] = false;
    json["inference_mode"] = true;
    json["init_lora_weights"] = true;
    json["lora_alpha"] = alpha;
    constexpr double most = 1e15;
    if (std::abs(alpha) < most && alpha == std::floor(alpha)) json["lora_alpha"] = static_cast<std::int64_t>(alpha);
    json["lora_dropout"] = 0.0;
    json["r"] = count.empty() ? Index{0} : usual->first;
    json["rank_pattern"] = std::move(pattern);
    json["target_modules"] = modules;
    json["use_dora"] = false;
    json["use_rslora"] = false;
    return json.dump(2) + "\n";
}

/// The entry of CanonicalLoRA's target_modules for the tensor `name`, such as linear_q.
std::string bridge_target(std::string_view name) {
    constexpr std::string_view ending = ".linear_in.weight";
    name.remove_suffix(ending.size());
    const std::size_t adapter = name.rfind(".adapter");
    const std::string_view module = name.substr(0, name.find(".adapter"));
    const std::string base{module.substr(module.rfind('.') + 1)};
    constexpr std::string_view part = ".adapter_";
    const std::string_view of = name.substr(adapter);
    if (!of.starts_with(part)) return base;
    const std::string letter{of.substr(part.size())};
    return base == "linear_qkv" ? "linear_" + letter : fmt::format("{}_{}", base, letter);
}

/// Megatron Bridge has one rank and one alpha for all modules, and multiplies by alpha / rank.
void check_for_bridge(const AdapterSettings& settings) {
    if (!settings.unmergeable.empty())
        throw failure("{}: adapters with {} cannot be converted to Megatron Bridge; merge with PEFT (merge_and_unload)",
                      adapter_config_name, fmt::join(settings.unmergeable, ", "));
    const char* what = settings.dora                  ? "use_dora"
                       : !settings.parameters.empty() ? "target_parameters"
                       : settings.rank_stabilized     ? "use_rslora"
                       : !settings.ranks.empty()      ? "rank_pattern"
                       : !settings.alphas.empty()     ? "alpha_pattern"
                                                      : nullptr;
    if (what != nullptr)
        throw failure(
            "{}: {} is set, but only LoRA with one rank and one alpha for all modules can be converted to an "
            "adapter of Megatron Bridge; merge it into its base (--merge-adapter)",
            adapter_config_name, what);
}

/// Whether the conversion may change the names of `source`.
bool changes_names(const Source& source, const Target& target) {
    if (target.dialect.empty()) return source.checkpoint.format != target.format;
    return target.dialect != "keep" && target.dialect != source.reading.dialect->name;
}

}  // namespace

void prepare_adapter(Source& source, const Target& target) {
    if (source.reading.family == nullptr || !is_adapter_family(*source.reading.family)) return;
    const fs::path own = source.checkpoint.catalogue.directory / adapter_config_name;
    if (target.format->has_args && changes_names(source, target) && path_is_file(own))
        check_for_bridge(read_adapter_settings(own));
    if (target.format->is_hugging_face)
        for (const char* name : {"config.json", run_config_name}) std::erase(source.checkpoint.companions, name);
}

std::string adapter_config_for(const Source& source, Format format, std::span<const Tensor> tensors,
                               const Config& config, std::vector<std::string>& notes) {
    const fs::path own = source.checkpoint.catalogue.directory / adapter_config_name;
    const bool known = path_is_file(own);
    if (format->is_hugging_face) {
        if (known) return "";
        const auto alpha = alpha_of(source, config);
        if (!alpha)
            throw Error{Exit::usage, "the adapter's alpha is unknown: found no {}; pass --set {}=N", run_config_name,
                        alpha_setting};
        return peft_config(tensors, *alpha);
    }
    if (!known || !format->has_args) return "";
    const AdapterSettings settings = read_adapter_settings(own);
    std::set<std::string> targets;
    for (const Tensor& tensor : tensors)
        if (tensor.name.ends_with(".linear_in.weight")) targets.insert(bridge_target(tensor.name));
    if (targets.empty()) return "";
    notes.push_back(
        fmt::format("Megatron Bridge loads this adapter with CanonicalLoRA(target_modules=['{}'], dim={}, alpha={})",
                    fmt::join(targets, "', '"), settings.rank, settings.alpha));
    return "";
}

}  // namespace tpx::formats
