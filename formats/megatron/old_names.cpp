// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/old_names.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace tpx::formats::megatron {
namespace {

using torch::Kind;
using torch::Value;

constexpr int deepest = 8;
using Renaming = std::pair<std::string_view, std::string_view>;

constexpr std::array<Renaming, 8> prefix_renamings{{
    {"language_model.embedding.", "embedding."},
    {"language_model.output_layer.", "output_layer."},
    {"language_model.encoder.", "decoder."},
    {"language_model.transformer.", "decoder."},
    {"language_model.pooler.", "pooler."},
    {"word_embeddings_for_head.", "output_layer."},
    {"decoder.final_norm.", "decoder.final_layernorm."},
    {"module.", ""},
}};
constexpr std::array<Renaming, 10> layer_renamings{{
    {".self_attention.query_key_value.", ".self_attention.linear_qkv."},
    {".attention.query_key_value.", ".self_attention.linear_qkv."},
    {".self_attention.dense.", ".self_attention.linear_proj."},
    {".attention.dense.", ".self_attention.linear_proj."},
    {".attention.", ".self_attention."},
    {".mlp.dense_h_to_4h.", ".mlp.linear_fc1."},
    {".mlp.dense_4h_to_h.", ".mlp.linear_fc2."},
    {".input_norm.", ".input_layernorm."},
    {".post_attention_norm.", ".pre_mlp_layernorm."},
    {".post_attention_layernorm.", ".pre_mlp_layernorm."},
}};

std::string renamed(std::string name) {
    for (const auto& [old, now] : prefix_renamings) {
        if (name.starts_with(old)) name.replace(0, old.size(), now);
    }
    if (!name.starts_with("decoder.layers.")) return name;
    for (const auto& [old, now] : layer_renamings) {
        if (const std::size_t at = name.find(old); at != name.npos) {
            name.replace(at, old.size(), now);
            break;
        }
    }
    return name;
}

bool is_dict(Value value) {
    return value.is(Kind::dict) || (value.is(Kind::object) && !value.as_object().entries().empty());
}

void add_entries(Value dict, const std::string& path, int depth, std::vector<ModelEntry>& out) {
    if (depth > deepest) throw failure("model: dicts are nested too deep below '{:.100}'", path);
    for (const auto& [key, value] : dict.entries()) {
        if (!key.is(Kind::string)) throw failure("model: a key is {}", key.describe());
        std::string name = path + std::string{key.as_string()};
        if (is_dict(value)) {
            add_entries(value, name + ".", depth + 1, out);
            continue;
        }
        const bool fused = name.find(".query_key_value.") != name.npos;
        out.push_back({renamed(std::move(name)), value, fused});
    }
}

}  // namespace

bool has_old_names(Value chunk) {
    return std::ranges::any_of(chunk.entries(), [](const torch::Entry& entry) {
        return entry.key.is(Kind::string) && entry.key.as_string() == "language_model";
    });
}

std::vector<ModelEntry> entries_by_old_names(Value chunk) {
    std::vector<ModelEntry> entries;
    add_entries(chunk, "", 0, entries);
    return entries;
}

RowOrder row_order(double version) {
    if (version == 0) return RowOrder::parts_first;
    if (version == 1) return RowOrder::parts_last;
    if (version >= 2 && version <= 3) return RowOrder::by_head;
    throw failure("unknown checkpoint_version {}", version);
}

}  // namespace tpx::formats::megatron
