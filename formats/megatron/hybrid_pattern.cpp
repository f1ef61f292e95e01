// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/hybrid_pattern.hpp"

#include "lib/layout/dims.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats::megatron {
namespace {

struct LayerKind {
    char symbol;  ///< in the pattern; Megatron-core, ssm/mamba_hybrid_layer_allocation.py
    const char* list;
};

constexpr LayerKind layer_kinds[]{{'M', "mamba_layers"}, {'*', "attention_layers"}, {'-', "mlp_layers"}};
constexpr char expert_layer = 'E';  ///< MoE layer; in none of the lists

/// The pattern in `args`: hybrid_layer_pattern (Megatron-core 0.17 and later) or hybrid_override_pattern; null if there
/// is none.
const std::string* pattern_in(const Config& args) {
    for (const char* key : {"hybrid_layer_pattern", "hybrid_override_pattern"}) {
        const auto found = args.find(key);
        if (found == args.end()) continue;
        if (const auto* pattern = std::get_if<std::string>(&found->second)) return pattern;
    }
    return nullptr;
}

}  // namespace

void add_layer_kinds(Config& args) {
    const std::string* pattern = pattern_in(args);
    if (pattern == nullptr || args.contains("hf_model_type")) return;
    std::map<std::string_view, std::vector<int>> flags;
    std::int64_t layers = 0;
    for (const char symbol : *pattern) {
        if (symbol == '|') continue;  // between pipeline stages
        if (symbol != expert_layer &&
            std::ranges::find(layer_kinds, symbol, &LayerKind::symbol) == std::end(layer_kinds))
            return;
        for (const LayerKind& kind : layer_kinds) flags[kind.list].push_back(kind.symbol == symbol);
        ++layers;
    }
    if (layers == 0 || integer(args, "num_layers") != layers) return;
    for (const LayerKind& kind : layer_kinds) {
        if (args.contains(kind.list)) return;
    }
    for (const auto& [list, values] : flags) args[std::string{list}] = fmt::format("[{}]", fmt::join(values, ","));
    args["hf_model_type"] = std::string{"nemotron_h"};
}

void remove_layer_kinds(Config& args, const Config& stored) {
    Config added = stored;
    add_layer_kinds(added);
    for (const auto& [key, value] : added)
        if (!stored.contains(key)) args.erase(key);
}

}  // namespace tpx::formats::megatron
