// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/flattened_optimizer.hpp"

#include "formats/state/training_keys.hpp"
#include "formats/torch/steps.hpp"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <utility>

namespace tpx::formats {
namespace {

using torch::Entry;
using torch::Kind;
using torch::Value;

/// Calls `each` with the name and the value of every entry below `key`, whether `root` nests it or names it KEY.ENTRY.
template <class Each>
void for_each_below(Value root, std::string_view key, Each&& each) {
    const std::string start = fmt::format("{}.", key);
    for (const Entry& entry : root.entries()) {
        if (!entry.key.is(Kind::string)) continue;
        const std::string_view name = entry.key.as_string();
        if (name.starts_with(start)) each(name.substr(start.size()), entry.value);
        if (name != key || !entry.value.is(Kind::dict)) continue;
        for (const Entry& inner : entry.value.entries())
            if (inner.key.is(Kind::string)) each(inner.key.as_string(), inner.value);
    }
}

/// The parameter and the setting of "param_groups.NAME.lr".
std::optional<std::pair<std::string, std::string>> setting_entry(std::string_view entry) {
    constexpr std::string_view groups = "param_groups.";
    const std::size_t dot = entry.rfind('.');
    if (!entry.starts_with(groups) || dot <= groups.size()) return std::nullopt;
    return std::pair{std::string{entry.substr(groups.size(), dot - groups.size())}, std::string{entry.substr(dot + 1)}};
}

/// The settings of the parameters whose moments are known by `moments`.
std::optional<Adam> adam_below(const torch::Archive& archive, Value root, std::string_view key,
                               const std::map<std::string, std::string>& moments) {
    Adam adam;
    Steps steps;
    for_each_below(root, key, [&](std::string_view name, Value value) {
        if (const auto state = state_entry(name); state && state->second == "step") steps.note(archive, value);
        const auto setting = setting_entry(name);
        const auto moment = setting ? moments.find(setting->first) : moments.end();
        if (moment != moments.end()) set(adam.own[moment->second], setting->second, value, &archive);
    });
    steps.set(adam);
    return adam.own.empty() ? std::nullopt : std::optional{std::move(adam)};
}

}  // namespace

void read_flattened_optimizer(const torch::Archive& archive, Value root, std::string_view prefix, std::string_view key,
                              std::span<const torch::NamedTensor> tensors, TrainingRoles& training) {
    std::set<std::string_view> weights;
    for (std::size_t t = 0; t < tensors.size(); ++t)
        if (training.roles[t] == Role::weight) weights.insert(training.parameters[t]);
    const std::string start = fmt::format("{}{}.", prefix, key);
    std::map<std::size_t, std::pair<std::string, Role>> states;  // parameters and roles by tensor number
    std::map<std::string, std::string> moments;                  // names of exp_avg, by the name in the entry
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const std::string_view name = tensors[t].name;
        const auto state = name.starts_with(start) ? state_entry(name.substr(start.size())) : std::nullopt;
        if (!state) continue;
        std::string parameter = weights.contains(state->first) ? state->first : unwrapped(state->first);
        if (!weights.contains(parameter)) return;  // the optimizer of another model
        if (state->second == "exp_avg") moments.emplace(state->first, name);
        states.emplace(t, std::pair{std::move(parameter), role_of_state(state->second)});
    }
    if (states.empty()) return;
    for (std::size_t t = 0; t < tensors.size(); ++t)
        if (tensors[t].name.starts_with(start)) training.roles[t] = Role::extra;  // such as learning rates
    for (auto& [t, state] : states) {
        training.parameters[t] = std::move(state.first);
        training.roles[t] = state.second;
    }
    if (!training.adam) training.adam = adam_below(archive, root, key, moments);
}

}  // namespace tpx::formats
