// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/unknown_tensors.hpp"

#include "formats/driver.hpp"
#include "formats/quantized/quantized.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/beyond_rules.hpp"
#include "lib/layout/suggest_rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {
namespace {

/// Throws Error if the layout changes in more than dp, cp and zero: buckets of a distributed optimizer, which are split
/// across data-parallel ranks, cannot be resharded otherwise.
void check_buckets(const Source& source, const Target& target) {
    const auto bucket = std::ranges::find_if(source.checkpoint.catalogue.tensors, [](const Tensor& tensor) {
        return tensor.name.find("optimizer.distributed.dp_group_idx_") != tensor.name.npos;
    });
    if (bucket == source.checkpoint.catalogue.tensors.end() || !source.layout) return;
    Layout same = *source.layout;
    same.dp = target.layout.dp;
    same.cp = target.layout.cp;
    same.zero = target.layout.zero;
    if (same != target.layout)
        throw failure(
            "tensor '{}': optimizer state in unknown buckets requires layout {} (only dp, cp and zero may differ)",
            bucket->name, to_string(*source.layout));
}

/// Whether a tensor is optimizer state whose parameter is unknown, which no rule can describe.
bool is_unknown_state(const Source& source, std::uint32_t tensor) { return role_of(source, tensor) == Role::state; }

}  // namespace

void check_unknown(const Source& source, const Target& target, std::vector<std::string>& notes) {
    const Reading& reading = source.reading;
    check_buckets(source, target);
    if (!reading.family || reading.unknown.empty()) return;
    if (source.layout && source.layout->tp == target.layout.tp && source.layout->pp == target.layout.pp) return;
    const std::vector<Tensor>& tensors = source.checkpoint.catalogue.tensors;
    // A single element cannot be split, so all ranks share it. Per-rank files, however, would need to know which ranks
    // store it.
    const bool shared = !target.format->has_rank_names;
    const auto splits_like_weight = [&](std::uint32_t t) { return reading.meanings[t].weight_part != nullptr; };
    const auto is_stuck = [&](std::uint32_t t) {
        return !splits_like_weight(t) && !reading.dialect->is_whole(tensors[t].name) &&
               (!shared || volume(tensors[t].shape) > 1);
    };
    const auto stuck = std::ranges::find_if(reading.unknown, is_stuck);
    const Tensor& tensor = tensors[stuck == reading.unknown.end() ? reading.unknown[0] : *stuck];
    if (stuck != reading.unknown.end() && is_unknown_state(source, *stuck))
        throw failure(
            "tensor '{}': the parameter of this optimizer state is unknown, so tp and pp cannot change; pass --drop "
            "optimizer to omit optimizer state",
            tensor.name);
    if (stuck != reading.unknown.end())
        throw failure("tensor '{}': its split is unknown, so tp and pp cannot change: {}", tensor.name,
                      missing_rule_message(*reading.family, *reading.dialect, reading.dims, tensor));
    std::vector<std::uint32_t> single;
    std::ranges::copy_if(reading.unknown, std::back_inserter(single), [&](std::uint32_t t) {
        return !splits_like_weight(t) && !reading.dialect->is_whole(tensors[t].name);
    });
    if (single.empty()) return;
    notes.push_back(fmt::format("tensor '{}'{}: no rule describes it; it has one element, which all ranks share",
                                tensors[single[0]].name,
                                single.size() > 1 ? fmt::format(" (and {} more)", single.size() - 1) : ""));
}

void note_unknown(Source& source) {
    const Reading& reading = source.reading;
    std::vector<const Tensor*> unknown;
    std::vector<const Tensor*> whole;
    const bool quantized = is_quantized(source.checkpoint);
    for (std::uint32_t t : reading.unknown) {
        const Tensor& tensor = source.checkpoint.catalogue.tensors[t];
        if (reading.meanings[t].weight_part || (quantized && is_quantized_weight_part(tensor.name))) continue;
        if (reading.family && reading.dialect->is_whole(tensor.name))
            whole.push_back(&tensor);
        else if (!tensor.name.starts_with("optimizer.") && !is_unknown_state(source, t))
            unknown.push_back(&tensor);
    }
    if (!whole.empty())
        source.checkpoint.notes.push_back(
            fmt::format("{} {} outside the language model, such as '{}', stored whole on every rank", whole.size(),
                        whole.size() == 1 ? "tensor" : "tensors", whole[0]->name));
    if (!reading.family || unknown.empty()) return;
    const std::string more = unknown.size() > 1 ? fmt::format(" (and {} more)", unknown.size() - 1) : "";
    source.checkpoint.notes.push_back(
        fmt::format("tensor '{}'{}: {}", unknown[0]->name, more,
                    missing_rule_message(*reading.family, *reading.dialect, reading.dims, *unknown[0])));
}

}  // namespace tpx::formats
