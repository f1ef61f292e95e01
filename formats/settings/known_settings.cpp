// SPDX-License-Identifier: Apache-2.0
#include "formats/settings/known_settings.hpp"

#include "lib/layout/dims.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>

namespace tpx::formats {
namespace {

constexpr std::string_view kind_any;
constexpr std::string_view kind_whole = "a whole number";
constexpr std::string_view kind_real = "a number";

struct AskedSetting {
    std::string_view key;
    std::string_view kind;
};

/// Settings that the code asks for; the rules name all others.
constexpr std::array asked_by_tpx{
    AskedSetting{"accumulate_allreduce_grads_in_fp32", kind_any},
    AskedSetting{"adam_beta1", kind_real},
    AskedSetting{"adam_beta2", kind_real},
    AskedSetting{"adam_eps", kind_real},
    AskedSetting{"architectures", kind_any},
    AskedSetting{"data_parallel_size", kind_whole},
    AskedSetting{"ddp_bucket_size", kind_whole},
    AskedSetting{"decoder_first_pipeline_num_layers", kind_whole},
    AskedSetting{"decoder_last_pipeline_num_layers", kind_whole},
    AskedSetting{"dtype", kind_any},
    AskedSetting{"hf_model_type", kind_any},
    AskedSetting{"lora_alpha", kind_real},
    AskedSetting{"lr", kind_real},
    AskedSetting{"make_vocab_size_divisible_by", kind_whole},
    AskedSetting{"model_type", kind_any},
    AskedSetting{"moe_grouped_gemm", kind_any},
    AskedSetting{"moe_use_legacy_grouped_gemm", kind_any},
    AskedSetting{"overlap_grad_reduce", kind_any},
    AskedSetting{"overlap_param_gather_with_optimizer_step", kind_any},
    AskedSetting{"params_dtype", kind_any},
    AskedSetting{"pipeline_model_parallel_layout", kind_any},
    AskedSetting{"step", kind_whole},
    AskedSetting{"torch_dtype", kind_any},
    AskedSetting{"torchtitan_version", kind_any},
    AskedSetting{"transformer_impl", kind_any},
    AskedSetting{"use_distributed_optimizer", kind_any},
    AskedSetting{"virtual_node_state", kind_any},
    AskedSetting{"weight_decay", kind_real},
};

/// Collects the keys in formulas and conditions: words of more than one letter. Factors have only one letter.
struct Words {
    void add(std::string_view formula) {
        for (std::string& word : formula_words(formula))
            if (word.size() > 1 && std::isalpha(static_cast<unsigned char>(word[0])) != 0)
                found.insert(std::move(word));
    }
    std::set<std::string> found;
};

void add_family(const Family& family, Words& words) {
    for (const auto& [source, conditions] : family.detect)
        for (const std::string& condition : conditions) words.add(condition);
    for (const auto& [letter, formulas] : family.dims)
        for (const auto& [source, formula] : formulas) words.add(formula);
    for (const auto& [dialect, formulas] : family.pad)
        for (const auto& [letter, formula] : formulas) words.add(formula);
    for (const auto& [source, condition] : family.tied) words.add(condition);
    for (const auto& [dialect, entries] : family.config) {
        for (const ConfigEntry& entry : entries) {
            words.add(entry.key);
            words.add(entry.formula);
            for (const std::string& formula : entry.more) words.add(formula);
        }
    }
    for (const auto& [tensor, conditions] : family.present)
        for (const auto& [source, condition] : conditions) words.add(condition);
    for (const auto& [dialect, limits] : family.limits) {
        for (const auto& [setting, limit] : limits) {
            words.add(setting);
            words.add(limit.condition);
        }
    }
    for (const auto& [dialect, keys] : family.needed)
        for (const auto& [key, assumed] : keys) words.add(key);
    for (const std::string& formula : family.tp_divides) words.add(formula);
}

/// Whether a size of `family` is computed from `key`, which may also be a word of conditions.
bool computes_sizes(const Family& family, std::string_view key) {
    for (const auto& [letter, formulas] : family.dims) {
        for (const auto& [source, formula] : formulas) {
            std::string_view rest = formula;
            while (!rest.empty()) {
                const std::string_view alternative = rest.substr(0, rest.find('|'));
                rest.remove_prefix(std::min(alternative.size() + 1, rest.size()));
                Words words;
                words.add(alternative.substr(0, alternative.find(" if ")));
                if (words.found.contains(std::string{key})) return true;
            }
        }
    }
    return false;
}

/// "40,40", or "null".
bool is_list_of_sizes(std::string_view text) {
    return text == "null" ||
           (!text.empty() && text.find_first_not_of("0123456789,") == text.npos && text.find(',') != text.npos);
}

}  // namespace

std::string_view kind_of_number(std::string_view key, const Families& families) {
    const auto* asked = std::ranges::find(asked_by_tpx, key, &AskedSetting::key);
    if (asked != asked_by_tpx.end() && !asked->kind.empty()) return asked->kind;
    const bool size = std::ranges::any_of(families, [&](const Family& family) { return computes_sizes(family, key); });
    return size ? kind_whole : kind_any;
}

bool is_number(const ConfigValue& value, std::string_view kind) {
    if (kind.empty() || std::holds_alternative<std::int64_t>(value)) return true;
    const auto* real = std::get_if<double>(&value);
    if (kind == kind_real) return real != nullptr && std::isfinite(*real);
    const auto* text = std::get_if<std::string>(&value);
    return text != nullptr && (*text == "auto" || is_list_of_sizes(*text));
}

std::set<std::string> known_settings(const Families& families, const Config& config) {
    Words words;
    for (const Family& family : families) add_family(family, words);
    for (const AskedSetting& asked : asked_by_tpx) words.found.emplace(asked.key);
    for (const auto& [key, value] : config) words.found.insert(key);
    return std::move(words.found);
}

}  // namespace tpx::formats
