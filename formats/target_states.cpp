// SPDX-License-Identifier: Apache-2.0
#include "formats/target_states.hpp"

#include "formats/roles.hpp"
#include "formats/torch/open.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/dims.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace tpx::formats {
namespace {

/// Whether there is state of an optimizer.
bool has_state(const Reading& reading) {
    return std::ranges::any_of(reading.meanings, [](const Meaning& meaning) { return meaning.role != "weight"; });
}

}  // namespace

std::set<std::string> spelling(const Source& source, const Target& target, const Config& config) {
    if (!is_megatron(target.format)) return {};
    std::set<std::string> tags{"dist", holds(config, "transformer_impl=local") ? "local" : "te"};
    if (!has_state(source.reading)) return tags;
    const bool distributed = holds(config, "use_distributed_optimizer");
    if (distributed) tags.insert("distributed");
    const auto& tensors = source.checkpoint.catalogue.tensors;
    const bool half = std::ranges::any_of(source.reading.meanings, [&](const Meaning& meaning) {
        const DType stored = tensors[static_cast<std::size_t>(&meaning - source.reading.meanings.data())].dtype;
        const DType dtype = target.dtype.value_or(stored);
        return meaning.role == "weight" && (dtype == DType::bf16 || dtype == DType::f16);
    });
    if (distributed || half) tags.insert("masters");
    return tags;
}

void keep_names(const Target& target, const std::map<std::string, DType>& made, Expressed& expressed) {
    if (!is_deepspeed(target.format)) return;
    if (target.dtype) throw Error{Exit::usage, "--dtype: {} keeps the types of its source", name(target.format)};
    expressed.reading.unknown.clear();
    for (Tensor& tensor : expressed.tensors)
        if (const auto found = made.find(tensor.name); found != made.end()) tensor.dtype = found->second;
}

std::vector<View> take_views(const Source& source, const Target& target, const Dialect* dialect, Expressed& expressed) {
    const bool same = source.checkpoint.format == Format::torch && !dialect && !target.dtype;
    if (target.format != Format::torch || !same) return {};
    const std::map<std::uint32_t, View> found = find_views(source.checkpoint);
    std::vector<std::uint32_t> numbers(expressed.tensors.size());  // of tensors that stay
    std::uint32_t kept = 0;
    for (std::uint32_t t = 0; t < expressed.tensors.size(); ++t) {
        if (found.contains(t)) continue;
        numbers[t] = kept;
        expressed.tensors[kept] = expressed.tensors[t];
        expressed.reading.meanings[kept++] = expressed.reading.meanings[t];
    }
    expressed.tensors.resize(kept);
    expressed.reading.meanings.resize(kept);
    std::vector<View> views;
    for (const auto& [t, view] : found) {
        views.push_back(view);
        views.back().tensor = numbers[view.tensor];
    }
    return views;
}

void check_states(const Source& source, const Target& target, const Dialect* dialect) {
    std::vector<std::string_view> states;
    const auto& tensors = source.checkpoint.catalogue.tensors;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const Meaning& meaning = source.reading.meanings[t];
        if (meaning.kind != Meaning::Kind::extra && meaning.role != "weight") states.push_back(tensors[t].name);
    }
    const bool named = !source.checkpoint.roles.empty();
    const bool fits = dialect ? !dialect->roles.empty() : !named || target.format != Format::safetensors;
    if (states.empty() || fits) return;
    constexpr std::size_t shown = 3;
    const std::size_t count = states.size();
    states.resize(std::min(count, shown));
    const std::string place = dialect ? fmt::format("{} names", dialect->name) : "safetensors, which hold weights";
    throw Error{Exit::usage,
                "{} tensors of optimizer state have no place in {} ('{}'{}); --drop optimizer leaves them out",
                count,
                place,
                fmt::join(states, "', '"),
                count > shown ? ", ..." : ""};
}

void carry_adam(Source& source, const Target& target, Conversion& out) {
    const bool moments = std::ranges::any_of(out.expressed.reading.meanings,
                                             [](const Meaning& meaning) { return meaning.role == "exp_avg"; });
    if (!moments) return;
    out.content.adam = adam_of(source);
    if (!out.content.adam)
        throw Error{Exit::usage,
                    "the optimizer's groups of parameters (lr, betas, ...) are not known; --drop optimizer leaves its "
                    "state out"};
    if (is_megatron(target.format)) {
        out.notes.push_back("the schedule of learning rates starts anew (Megatron: --override-opt-param-scheduler)");
        return;
    }
    if (out.expressed.copies.empty()) return;
    if (target.dtype && *target.dtype != DType::f32)
        throw Error{Exit::usage,
                    "--dtype {} would round the master weights, which are the only ones that {} names keep",
                    name(*target.dtype), out.expressed.reading.dialect->name};
    out.notes.push_back("weights are the master weights, in full precision");
}

}  // namespace tpx::formats
