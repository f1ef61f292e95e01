// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/roles_by_key.hpp"

#include "formats/dcp/tensor_paths.hpp"
#include "formats/state/training_keys.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tpx::formats {
namespace {

/// NAME and "exp_avg" of the path ("optim", "state", NAME, "exp_avg") or, flattened, ("optim", "state.NAME.exp_avg").
std::optional<std::pair<std::string, std::string>> state_at(const KeyNames& path) {
    if (path.size() == 4 && path[1] == "state") return std::pair{path[2], path[3]};
    return path.size() == 2 ? state_entry(path[1]) : std::nullopt;
}

}  // namespace

void set_roles_below_keys(Checkpoint& checkpoint) {
    const std::vector<TensorPath> paths = tensor_paths(checkpoint);
    const auto is_below = [&](std::string_view key) {
        return [key](const TensorPath& one) { return one.path.size() > 1 && one.path[0] == key; };
    };
    const auto* const key =
        std::ranges::find_if(weight_keys, [&](std::string_view k) { return std::ranges::any_of(paths, is_below(k)); });
    if (key == weight_keys.end()) return;
    const std::size_t count = checkpoint.catalogue.tensors.size();
    std::vector<Role> roles(count, Role::extra);
    std::vector<std::string> parameters(count);
    std::set<std::string> weights;
    for (std::size_t t = 0; t < count; ++t) parameters[t] = checkpoint.catalogue.tensors[t].name;
    for (const TensorPath& one : paths) {
        if (!is_below(*key)(one)) continue;
        roles[one.tensor] = Role::weight;
        parameters[one.tensor] = unwrapped(joined(std::span{one.path}.subspan(1)));
        weights.insert(parameters[one.tensor]);
    }
    for (const TensorPath& one : paths) {
        const auto state = is_below(*key)(one) ? std::nullopt : state_at(one.path);
        if (!state) continue;
        // Megatron-FSDP's optimizer names parameters within three wrappers, each of which adds "module.".
        std::string parameter = unwrapped(state->first);
        while (!weights.contains(parameter)) {
            std::string inner = unwrapped(parameter);
            if (inner == parameter) return;  // the optimizer of another model
            parameter = std::move(inner);
        }
        parameters[one.tensor] = std::move(parameter);
        roles[one.tensor] = role_of_state(state->second);
    }
    checkpoint.roles = std::move(roles);
    checkpoint.parameters = std::move(parameters);
}

bool set_roles_of_optimizer(Checkpoint& checkpoint) {
    const auto is_below_state = [](const Tensor& tensor) { return tensor.name.starts_with("state."); };
    if (!std::ranges::all_of(checkpoint.catalogue.tensors, is_below_state)) return false;
    const std::vector<TensorPath> paths = tensor_paths(checkpoint);
    const auto is_state = [](const TensorPath& one) {
        return one.path.size() == 3 && one.path[0] == "state" && !key_number(one.path[1]);
    };
    const auto is_known = [](const TensorPath& one) { return role_of_state(one.path.back()) != Role::state; };
    const std::size_t count = checkpoint.catalogue.tensors.size();
    if (paths.size() != count || !std::ranges::all_of(paths, is_state) || std::ranges::none_of(paths, is_known))
        return false;
    checkpoint.roles.assign(count, Role::state);
    checkpoint.parameters.resize(count);
    for (const TensorPath& one : paths) {
        checkpoint.parameters[one.tensor] = unwrapped(one.path[1]);
        checkpoint.roles[one.tensor] = role_of_state(one.path[2]);
    }
    return true;
}

}  // namespace tpx::formats
