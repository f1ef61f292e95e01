// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/rank_names.hpp"

#include "lib/layout/dims.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace tpx::formats::megatron {
namespace {

constexpr std::array<std::string_view, 2> stacks{"decoder.layers.", "encoder.layers."};
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> norms{{
    {"input_layernorm.", "self_attention.linear_qkv.layer_norm_"},
    {"pre_mlp_layernorm.", "mlp.linear_fc1.layer_norm_"},
}};
constexpr std::string_view stored_experts = "mlp.experts.experts.";
constexpr std::string_view sequential_experts = "mlp.experts.local_experts.";
constexpr std::string_view grouped_experts = "mlp.experts.";
constexpr std::string_view prediction = "mtp.layers.";
constexpr std::array<std::string_view, 2> prediction_modules{".transformer_layer.", ".mtp_model_layer."};

/// Removes a number from the front of `text` and returns it.
std::optional<int> take_number(std::string_view& text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || value < 0 || end == text.data()) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

/// Splits off "decoder.layers.3.", leaving the rest in `name`.
void take_layer(std::string_view& name, RankName& into) {
    for (std::string_view stack : stacks) {
        if (!name.starts_with(stack)) continue;
        into.stack = stack;
        std::string_view rest = name.substr(stack.size());
        if (const auto layer = take_number(rest); layer && rest.starts_with('.')) {
            into.layer = *layer;
            rest.remove_prefix(1);
        }
        name = rest;
    }
}

/// Splits off "mtp.layers.0.transformer_layer.", leaving the rest in `name`.
void take_prediction(std::string_view& name, RankName& into) {
    std::string_view rest = name;
    if (!rest.starts_with(prediction)) return;
    rest.remove_prefix(prediction.size());
    if (!take_number(rest)) return;
    for (std::string_view module : prediction_modules) {
        if (!rest.starts_with(module)) continue;
        const std::size_t size = name.size() - rest.size() + module.size();
        into.within = name.substr(0, size);
        name.remove_prefix(size);
        return;
    }
}

/// Parses a name such as "linear_fc1.weight3", which is "linear_fc1.weight" of expert 3.
bool take_numbered_expert(std::string_view name, RankName& into) {
    const std::size_t end = name.find_last_not_of("0123456789") + 1;
    std::string_view number = name.substr(end);
    const std::string_view stem = name.substr(0, end);
    if (!stem.ends_with(".weight") && !stem.ends_with(".bias")) return false;
    const auto expert = take_number(number);
    if (!expert) return false;
    into.expert = *expert;
    into.tensor = fmt::format("{}{}", stored_experts, stem.substr(grouped_experts.size()));
    return true;
}

void take_expert(std::string_view name, RankName& into) {
    into.tensor = name;
    if (name.starts_with(sequential_experts)) {
        std::string_view rest = name.substr(sequential_experts.size());
        const auto expert = take_number(rest);
        if (!expert || !rest.starts_with('.')) return;
        into.expert = *expert;
        into.tensor = fmt::format("{}{}", stored_experts, rest.substr(1));
    } else if (name == "mlp.experts.weight1" || name == "mlp.experts.weight2") {
        into.grouped_experts = true;
        into.tensor = fmt::format("{}linear_fc{}.weight", stored_experts, name.back());
    } else if (name.starts_with(grouped_experts)) {
        take_numbered_expert(name, into);
    }
}

std::string expert_name(const RankName& name, const Spelling& spelling) {
    const std::string_view inner = std::string_view{name.tensor}.substr(stored_experts.size());
    switch (spelling.experts) {
        case Spelling::Experts::grouped:
            if (name.grouped_experts) return fmt::format("mlp.experts.weight{}", inner == "linear_fc1.weight" ? 1 : 2);
            break;
        case Spelling::Experts::grouped_te:
            return fmt::format("{}{}{}", grouped_experts, inner, name.expert);
        case Spelling::Experts::sequential:
            break;
    }
    return fmt::format("{}{}.{}", sequential_experts, name.expert, inner);
}

}  // namespace

Spelling Spelling::of(const Config& args) {
    Spelling spelling;
    const bool te = holds(args, "transformer_impl=transformer_engine");
    spelling.local_norms = !te && !holds(args, "multi_latent_attention");
    if (holds(args, "moe_grouped_gemm")) {
        const bool legacy = holds(args, "moe_use_legacy_grouped_gemm") || !te;
        spelling.experts = legacy ? Experts::grouped : Experts::grouped_te;
    }
    return spelling;
}

std::string RankName::stored(int with_layer) const {
    if (with_layer < 0) return within + stack + tensor;
    return fmt::format("{}{}.{}", stack, with_layer, tensor);
}

RankName parse_rank_name(std::string_view name, const Spelling& spelling) {
    RankName found;
    take_layer(name, found);
    take_prediction(name, found);
    if (found.layer < 0 && found.within.empty()) {
        found.stack.clear();
        found.tensor = name;
        return found;
    }
    take_expert(name, found);
    if (!spelling.local_norms) return found;
    for (const auto& [local, fused] : norms) {
        if (name.starts_with(local)) found.tensor = fmt::format("{}{}", fused, name.substr(local.size()));
    }
    return found;
}

std::string rank_name(const RankName& name, const Spelling& spelling) {
    std::string tensor = name.tensor;
    if (is_expert(name.tensor)) tensor = expert_name(name, spelling);
    for (const auto& [local, fused] : norms) {
        if (spelling.local_norms && tensor.starts_with(fused))
            tensor = fmt::format("{}{}", local, tensor.substr(fused.size()));
    }
    return name.layer < 0 ? name.within + tensor : fmt::format("{}{}.{}", name.stack, name.layer, tensor);
}

RankName parse_stored_name(std::string_view name) {
    RankName found;
    take_layer(name, found);
    take_prediction(name, found);
    found.tensor = name;
    return found;
}

bool is_expert(std::string_view name) { return name.find(stored_experts) != std::string_view::npos; }

std::string_view second_name(std::string_view name) {
    if (name == "embedding.position_embeddings.weight") return "position_embeddings.weight";
    return name == "lm_head.output_layer.bias" ? "output_layer.bias" : "";
}

bool is_buffer(std::string_view name) {
    return std::ranges::any_of(
        std::array<std::string_view, 4>{"_extra_state", "expert_bias", "local_tokens_per_expert", "inv_freq"},
        [&](std::string_view end) { return name.ends_with(end); });
}

namespace {

/// The sort key inside "mtp.layers.N.": first the modules that join embedding and hidden state, then the decoder layer,
/// then the norm after it.
std::string order_in_mtp(std::string_view name) {
    static constexpr std::array<std::string_view, 5> modules{"enorm.", "hnorm.", "eh_proj.", "transformer_layer.",
                                                             "mtp_model_layer."};
    const std::size_t dot = std::min(name.find('.') + 1, name.size());
    const std::string_view rest = name.substr(dot);
    const auto module = std::ranges::find_if(modules, [&](std::string_view start) { return rest.starts_with(start); });
    const std::string layer{module == modules.end() || module < modules.begin() + 3 ? "" : rest.substr(module->size())};
    return fmt::format("{:0>6}.{}.{}", name.substr(0, dot), module - modules.begin(),
                       layer.empty() ? "" : module_order("decoder.layers.0." + layer));
}

}  // namespace

std::string module_order(std::string_view name) {
    // T5 has a second name for position embeddings; BERT and T5 have a lm_head before the output layer.
    static constexpr std::array<std::string_view, 16> tops{"embedding.word_embeddings.",
                                                           "embedding.position_embeddings.",
                                                           "embedding.tokentype_embeddings.",
                                                           "position_embeddings.",
                                                           "encoder_relative_pos_emb.",
                                                           "decoder_relative_pos_emb.",
                                                           "encoder.layers.",
                                                           "encoder.",
                                                           "decoder.layers.",
                                                           "decoder.",
                                                           "lm_head.dense.",
                                                           "lm_head.",
                                                           "mtp.",
                                                           "output_layer.",
                                                           "binary_head.",
                                                           "pooler."};
    static constexpr std::array<std::string_view, 26> inners{"input_layernorm.",
                                                             "self_attention.linear_proj.",
                                                             "self_attention.linear_qkv.layer_norm_",
                                                             "self_attention.linear_qkv.",
                                                             "self_attention.linear_q_proj.",
                                                             "self_attention.linear_q_down_proj.",
                                                             "self_attention.linear_q_up_proj.",
                                                             "self_attention.linear_kv_down_proj.",
                                                             "self_attention.linear_kv_up_proj.",
                                                             "self_attention.q_layernorm.",
                                                             "self_attention.k_layernorm.",
                                                             "self_attention.kv_layernorm.",
                                                             "pre_cross_attn_layernorm.",
                                                             "cross_attention.linear_proj.",
                                                             "cross_attention.linear_q.",
                                                             "cross_attention.linear_kv.",
                                                             "pre_mlp_layernorm.",
                                                             "mlp.router.",
                                                             "mlp.experts.",
                                                             "mlp.shared_experts.gate_weight",
                                                             "mlp.shared_experts.linear_fc1.",
                                                             "mlp.shared_experts.linear_fc2.",
                                                             "mlp.linear_fc1.layer_norm_",
                                                             "mlp.linear_fc1.",
                                                             "mlp.linear_fc2.",
                                                             ""};
    const auto place = [](const auto& list, std::string_view text) {
        return std::ranges::find_if(list, [&](std::string_view start) { return text.starts_with(start); }) -
               list.begin();
    };
    if (name.starts_with(prediction))
        return fmt::format("{:02}.{}", place(tops, name), order_in_mtp(name.substr(prediction.size())));
    const Spelling as_is{};
    const RankName at = parse_rank_name(name, as_is);
    // Weights precede biases; in TransformerEngine, the norm of a fused linear layer comes first.
    const bool bias = at.tensor.ends_with("bias");
    const int expert = std::max(at.expert, 0);
    std::string_view tensor = at.tensor;
    const std::string inside =
        is_expert(tensor) ? fmt::format("mlp.experts.{}", tensor.substr(stored_experts.size())) : std::string{tensor};
    const bool te_experts = at.expert >= 0 && name.find(sequential_experts) == std::string_view::npos;
    const std::string_view linear = std::string_view{inside}.substr(0, inside.rfind('.'));
    return fmt::format("{:02}.{:06}.{:02}.{:06}.{}.{}.{:06}", place(tops, name), std::max(at.layer, 0),
                       place(inners, inside), te_experts ? 0 : expert, linear, bias ? 1 : 0, expert);
}

}  // namespace tpx::formats::megatron
