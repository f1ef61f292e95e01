// SPDX-License-Identifier: Apache-2.0
#include "formats/state/named_roles.hpp"

#include "formats/driver.hpp"
#include "formats/state/roles.hpp"
#include "formats/state/training_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tpx::formats {
namespace {

/// The parts of optim.state.PARAMETER.STATE.
struct StateName {
    std::string parameter;
    Role role = Role::state;
};

std::optional<StateName> state_name(std::string_view name) {
    for (const std::string_view root : {"optimizer.", "optim."}) {
        auto state = name.starts_with(root) ? state_entry(name.substr(root.size())) : std::nullopt;
        if (state) return StateName{std::move(state->first), role_of_state(state->second)};
    }
    return std::nullopt;
}

/// The key, including its dot, below which weights have the names of `states`; empty if they are at the top. Unset if
/// no state has a weight.
std::optional<std::string> key_of_weights(const std::vector<Tensor>& tensors, const std::vector<StateName>& states) {
    std::unordered_set<std::string_view> names;
    for (const Tensor& tensor : tensors) names.insert(tensor.name);
    std::vector<std::string> keys{""};
    for (const std::string_view key : weight_keys) keys.push_back(fmt::format("{}.", key));
    for (const std::string& key : keys) {
        const auto has_weight = [&](const StateName& state) { return names.contains(key + state.parameter); };
        if (std::ranges::any_of(states, has_weight)) return key;
    }
    return std::nullopt;
}

}  // namespace

bool assign_named_roles(Checkpoint& checkpoint) {
    if (!checkpoint.roles.empty() || checkpoint.format->has_args) return false;
    const std::vector<Tensor>& tensors = checkpoint.catalogue.tensors;
    std::vector<StateName> states;
    for (const Tensor& tensor : tensors)
        if (auto state = state_name(tensor.name)) states.push_back(std::move(*state));
    if (states.empty()) return false;
    const auto key = key_of_weights(tensors, states);
    if (!key) return false;
    for (const Tensor& tensor : tensors) {
        const std::string& name = tensor.name;
        const auto state = state_name(name);
        const bool weight = name.starts_with(*key) && !name.starts_with("optim.") && !name.starts_with("optimizer.");
        checkpoint.roles.push_back(state ? state->role : weight ? Role::weight : Role::extra);
        checkpoint.parameters.push_back(state ? state->parameter : weight ? name.substr(key->size()) : name);
    }
    return true;
}

}  // namespace tpx::formats
