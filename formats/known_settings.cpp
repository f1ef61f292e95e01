// SPDX-License-Identifier: Apache-2.0
#include "formats/known_settings.hpp"

#include <array>
#include <cctype>
#include <string_view>
#include <utility>

namespace tpx::formats {
namespace {

/// Keys that the code asks for; the rules name all others.
constexpr std::array asked_by_tpx{
    "accumulate_allreduce_grads_in_fp32",
    "adam_beta1",
    "adam_beta2",
    "adam_eps",
    "architectures",
    "data_parallel_size",
    "ddp_bucket_size",
    "decoder_first_pipeline_num_layers",
    "decoder_last_pipeline_num_layers",
    "dtype",
    "hf_model_type",
    "lora_alpha",
    "lr",
    "make_vocab_size_divisible_by",
    "model_type",
    "moe_grouped_gemm",
    "moe_use_legacy_grouped_gemm",
    "overlap_grad_reduce",
    "overlap_param_gather_with_optimizer_step",
    "params_dtype",
    "pipeline_model_parallel_layout",
    "step",
    "torch_dtype",
    "torchtitan_version",
    "transformer_impl",
    "use_distributed_optimizer",
    "virtual_node_state",
    "weight_decay",
};

/// The keys in formulas and conditions: words of more than one letter, which a factor has.
class Words {
public:
    void add(std::string_view formula) {
        std::string word;
        for (const char c : formula) {
            const bool in_word = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
            if (in_word)
                word += c;
            else
                take(word);
        }
        take(word);
    }
    std::set<std::string> found;

private:
    void take(std::string& word) {
        if (word.size() > 1 && std::isalpha(static_cast<unsigned char>(word[0])) != 0) found.insert(word);
        word.clear();
    }
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

}  // namespace

std::set<std::string> known_settings(std::span<const Family> families, const Config& config) {
    Words words;
    for (const Family& family : families) add_family(family, words);
    words.found.insert(asked_by_tpx.begin(), asked_by_tpx.end());
    for (const auto& [key, value] : config) words.found.insert(key);
    return std::move(words.found);
}

}  // namespace tpx::formats
