// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/rank_state.hpp"

#include "formats/encodings/torch/keep_alive.hpp"
#include "formats/encodings/torch/without_keys.hpp"
#include "formats/megatron/muon_optimizers.hpp"
#include "formats/state/common_state.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/dims.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

namespace tpx::formats::megatron {
namespace {

using torch::Document;
using torch::Entry;
using torch::Kind;
using torch::Value;

/// The entries of dict `value` for which `keep` holds.
template <class Keep>
Value filtered(Document& document, Value value, Keep&& keep) {
    std::vector<Entry> kept;
    for (const Entry& entry : value.entries()) {
        if (!entry.key.is(Kind::string) || keep(entry.key.as_string())) kept.push_back(entry);
    }
    return document.dict(kept);
}

Value group_without_parameters(Document& document, Value group) {
    return group.is(Kind::dict) ? filtered(document, group, [](std::string_view key) { return key != "params"; })
                                : group;
}

/// The step that torch's Adam stores for each parameter as a tensor; unset if there is none.
std::optional<std::int64_t> step_of(const torch::Archive& archive, Value state) {
    std::optional<std::int64_t> step;
    const auto states = state.find("state");
    for (const Entry& entry : states && states->is(Kind::dict) ? states->entries() : std::span<const Entry>{}) {
        const auto own = entry.value.is(Kind::dict) ? entry.value.find("step") : std::nullopt;
        if (!own) continue;
        const auto tensor = archive.tensor(*own);
        if (!tensor || tensor->dtype != DType::f32 || volume(tensor->shape) != 1)
            throw failure("the optimizer's step is {}, not a tensor of one f32", own->describe());
        float value = 0;
        std::memcpy(&value, archive.elements(*tensor).data(), sizeof value);
        if (!(value >= 0 && value < 1e15F) || (step && *step != static_cast<std::int64_t>(value)))
            throw failure("the optimizer's parameters are at different steps");
        step = static_cast<std::int64_t>(value);
    }
    return step;
}

/// {'param_groups': ...} of a torch optimizer's state.
Value inner_state(Document& document, const torch::Archive& archive, Value state) {
    const auto groups = state.find("param_groups");
    if (!groups) return state;
    const auto step = step_of(archive, state);
    std::vector<Value> list;
    for (const Value group : groups->items()) {
        list.push_back(group_without_parameters(document, group));
        if (step && !group.find("step")) list.back() = document.with_key(list.back(), "step", document.integer(*step));
    }
    const Value without = filtered(document, state, [](std::string_view key) { return key != "state"; });
    return document.with_key(without, "param_groups", document.list(list));
}

Value optimizer_state(Document& document, const torch::Archive& archive, Value optimizer) {
    if (!optimizer.is(Kind::dict)) return optimizer;
    const Value without =
        filtered(document, optimizer, [](std::string_view key) { return key != "fp32_from_fp16_params"; });
    if (const auto inner = without.find("optimizer"); inner && inner->is(Kind::dict))
        return document.with_key(without, "optimizer", inner_state(document, archive, *inner));
    return document.with_key(document.dict(), "optimizer", inner_state(document, archive, without));
}

/// The state of one optimizer, or that of two as torch_dist stores them: with keys 0 and 1.
Value optimizers_state(Document& document, const torch::Archive& archive, Value optimizers) {
    if (!optimizers.is(Kind::list)) return optimizer_state(document, archive, optimizers);
    std::vector<Entry> numbered;
    for (const Value one : optimizers.items())
        numbered.push_back(
            {document.integer(static_cast<std::int64_t>(numbered.size())), optimizer_state(document, archive, one)});
    return document.dict(numbered);
}

bool is_common(std::string_view key) {
    static constexpr std::array<std::string_view, 6> own{"rng_state",       "random_rng_state", "np_rng_state",
                                                         "torch_rng_state", "cuda_rng_state",   "rng_tracker_states"};
    return !key.starts_with("model") && std::ranges::find(own, key) == own.end();
}

}  // namespace

std::shared_ptr<const Value> common_of_ranks(const torch::Archive& archive, torch::Contents& storages) {
    Document document;
    Value common = filtered(document, archive.root(), is_common);
    if (const auto optimizer = common.find("optimizer"); optimizer && !optimizer->is_none())
        common = document.with_key(common, "optimizer", optimizers_state(document, archive, *optimizer));
    return keep_copy_alive(archive, common, storages);
}

bool is_group_of_experts(Value group) {
    const auto flag = group.find("is_expert_parallel");
    return flag && flag->is(Kind::boolean) && flag->as_bool();
}

bool is_muon_group(Value group) {
    return group.is(Kind::dict) && (group.find("momentum_beta") || group.find("momentum")) && !group.find("betas");
}

bool has_muon(const std::vector<OptimizerState>& states) {
    const auto is_muon = [](const OptimizerState& state) { return std::ranges::any_of(state.groups, is_muon_group); };
    return std::ranges::any_of(states, is_muon) && !std::ranges::all_of(states, is_muon);
}

double decay_of(Value group) {
    const double decay = group.at("wd_mult").as_real();
    if (decay != 0 && decay != 1) throw failure("a group of parameters has wd_mult = {}", decay);
    return decay;
}

std::vector<double> decays(const std::vector<OptimizerState>& states) {
    std::vector<double> order;
    for (const Value group : states[0].groups) {
        if (std::ranges::find(order, decay_of(group)) == order.end()) order.push_back(decay_of(group));
    }
    for (double decay : {1.0, 0.0}) {
        if (std::ranges::find(order, decay) == order.end()) order.push_back(decay);
    }
    return order;
}

Value group_like(Document& document, const std::vector<OptimizerState>& states, bool experts, double decay) {
    for (const bool same : {true, false}) {
        for (const OptimizerState& one : states) {
            for (const Value group : one.groups) {
                if (decay_of(group) != decay || (is_group_of_experts(group) == experts) != same) continue;
                if (same || !group.find("is_expert_parallel")) return group;
                return document.with_key(group, "is_expert_parallel", Value::boolean(experts));
            }
        }
    }
    throw failure("the source has no group of parameters {} weight decay", decay == 0 ? "without" : "with");
}

Value with_optimizers(Document& document, Value common, bool two, bool vectors) {
    const std::vector<OptimizerState> states = optimizers_of(common);
    if (states.empty()) return common;
    // Drops the entries that a rank without parameters leaves behind: they are not lists to which other ranks could
    // add.
    const bool left_behind = std::ranges::any_of(states, [](const OptimizerState& state) {
        return state.outer.find("fp32_from_fp16_params") || state.outer.find("param_state");
    });
    if (has_muon(states)) return with_muon_of_experts(document, common, states, two, vectors);
    if ((states.size() == 2) == two && !left_behind) return common;
    std::vector<Value> made;
    for (const bool experts : two ? std::vector{false, true} : std::vector{false}) {
        std::vector<Value> groups;
        for (double decay : decays(states)) {
            if (decay == 0 && experts && !vectors) continue;
            groups.push_back(group_like(document, states, experts, decay));
        }
        const Value of = states[experts && states.size() == 2 ? 1 : 0].outer;
        const Value outer = torch::without_keys(document, of, {"fp32_from_fp16_params", "param_state"});
        const auto inner = outer.find("optimizer");
        const Value settings = torch::without_keys(document, inner.value_or(outer), {"state"});
        const Value with_groups = document.with_key(settings, "param_groups", document.list(groups));
        made.push_back(inner ? document.with_key(outer, "optimizer", with_groups) : with_groups);
    }
    if (!two) return document.with_key(common, "optimizer", made[0]);
    const std::array both{Entry{document.integer(0), made[0]}, Entry{document.integer(1), made[1]}};
    return document.with_key(common, "optimizer", document.dict(both));
}

}  // namespace tpx::formats::megatron
