// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/rename_optimizer_state.hpp"

#include "formats/driver.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

namespace tpx::formats {
namespace {

/// DeepSpeed's names for the state of each role, after the parameter's name.
constexpr std::array<std::pair<Role, std::string_view>, 3> deepspeed_states{
    {{Role::master, "fp32"}, {Role::exp_avg, "exp_avg"}, {Role::exp_avg_sq, "exp_avg_sq"}}};

/// PyTorch's name for the state of a role, from the first pattern for the role.
std::string torch_name(Role role, const std::string& parameter) {
    const auto found = std::ranges::find(torch_roles(), role, &RolePattern::role);
    return std::string{found->pattern}.replace(found->pattern.find('*'), 1, parameter);
}

/// The parameter and the role of a tensor with optimizer state.
struct State {
    std::string parameter;
    Role role = Role::weight;
};

/// The state in tensor `t`, as the checkpoint records it, or else from PyTorch's names; unset for other tensors.
std::optional<State> state_of(const Checkpoint& checkpoint, std::size_t t) {
    if (!checkpoint.roles.empty()) {
        if (checkpoint.roles[t] == Role::weight || checkpoint.roles[t] == Role::extra) return std::nullopt;
        return State{std::string{parameter_of(checkpoint, t)}, checkpoint.roles[t]};
    }
    for (const RolePattern& pattern : torch_roles())
        if (const auto star = wildcard_match(pattern.pattern, checkpoint.catalogue.tensors[t].name))
            return State{std::string{*star}, pattern.role};
    return std::nullopt;
}

bool has_states(const Source& source) {
    for (std::size_t t = 0; t < source.checkpoint.catalogue.tensors.size(); ++t)
        if (state_of(source.checkpoint, t)) return true;
    return false;
}

/// Whether state is named PARAMETER/STATE, as in DeepSpeed's files and in HDF5 files converted from them, unlike Keras.
bool has_slashes(const Checkpoint& checkpoint) {
    if (!checkpoint.parameters.empty()) return false;
    for (std::size_t t = 0; t < checkpoint.roles.size(); ++t) {
        const Role role = checkpoint.roles[t];
        if (role != Role::weight && role != Role::extra &&
            checkpoint.catalogue.tensors[t].name.find('/') == std::string::npos)
            return false;
    }
    return !checkpoint.roles.empty();
}

/// Whether names of optimizer state lack the parameter's name, because the optimizer numbers its parameters.
bool counts_parameters(const Checkpoint& checkpoint) {
    for (std::size_t t = 0; t < checkpoint.parameters.size(); ++t) {
        const std::string& name = checkpoint.catalogue.tensors[t].name;
        if (checkpoint.roles[t] != Role::weight && name.find(checkpoint.parameters[t]) == name.npos) return true;
    }
    return false;
}

/// Renames optimizer state: collects the tensors of the target.
class StateRenamer {
public:
    explicit StateRenamer(const Source& source) : source_{source} {
        out_.reading = source.reading;
        out_.reading.meanings.clear();
        out_.reading.unknown.clear();
        for (std::uint32_t t = 0; t < tensors().size(); ++t) numbers_.emplace(tensors()[t].name, t);
    }

    /// Converts DeepSpeed's names to PyTorch's: master weights replace weights.
    ExpressedState to_torch() {
        const auto& roles = source_.checkpoint.roles;
        const bool adam = has_moments(source_);
        for (std::uint32_t t = 0; t < tensors().size(); ++t) {
            const std::string& name = tensors()[t].name;
            const std::string parameter{parameter_of(name)};
            if (roles[t] == Role::weight)
                add(name, Role::weight, master_of(name).value_or(t));
            else if (roles[t] == Role::master && !numbers_.contains(parameter))
                add(parameter, Role::weight, t);
            else if (roles[t] == Role::exp_avg || roles[t] == Role::exp_avg_sq)
                add(torch_name(roles[t], parameter), roles[t], t);
            else if (!adam && roles[t] != Role::master)
                add(fmt::format("optimizer.state.{}.{}", parameter, name.substr(parameter.size() + 1)), roles[t], t);
            else if (roles[t] != Role::master && roles[t] != Role::step)
                refuse(t, "DCP checkpoint");
        }
        for (const auto& [name, stored] : source_.checkpoint.shared)
            if (const auto master = master_of(name); master && !numbers_.contains(name))
                add(name, Role::weight, *master);
        return std::move(out_);
    }

    /// Names numbered state, and weights, by parameter.
    ExpressedState to_names() {
        for (std::uint32_t t = 0; t < tensors().size(); ++t) {
            const std::string& name = tensors()[t].name;
            const std::string& parameter = source_.checkpoint.parameters[t];
            const Role role = source_.checkpoint.roles[t];
            const bool state = role != Role::weight && role != Role::extra && parameter != name;
            add(state ? fmt::format("optimizer.state.{}.{}", parameter, name.substr(name.rfind('.') + 1))
                : role == Role::weight ? parameter
                                       : name,
                role, t);
        }
        return std::move(out_);
    }

    /// Converts other names to DeepSpeed's: parameters with moments get master weights.
    ExpressedState to_deepspeed() {
        find_masters();
        for (std::uint32_t t = 0; t < tensors().size(); ++t) {
            const auto state = state_of(source_.checkpoint, t);
            if (!state || state->role == Role::step || state->role == Role::master) continue;
            if (state->role != Role::exp_avg && state->role != Role::exp_avg_sq) refuse(t, "universal checkpoint");
            add(fmt::format("{}/{}", state->parameter, state->role), state->role, t);
            if (state->role != Role::exp_avg) continue;
            const auto master = masters_.find(state->parameter);
            const auto weight = weight_of(*state);
            if (weight) weights_.emplace(*weight, state->parameter);
            if (!weight && master == masters_.end())
                throw failure("tensor '{}': there is no parameter '{}'", tensors()[t].name, state->parameter);
            add(state->parameter + "/fp32", Role::master, master == masters_.end() ? *weight : master->second).dtype =
                DType::f32;
        }
        for (std::uint32_t t = 0; t < tensors().size(); ++t) add_weight(t);
        return std::move(out_);
    }

private:
    const std::vector<Tensor>& tensors() const { return source_.checkpoint.catalogue.tensors; }

    Tensor& add(const std::string& name, Role role, std::uint32_t stored) {
        const Tensor& tensor = tensors()[stored];
        out_.tensors.push_back({name, tensor.dtype, tensor.shape});
        out_.reading.meanings.push_back(source_.reading.meanings[stored]);
        out_.reading.meanings.back().role = role;
        if (name != tensor.name) out_.copies.emplace(name, tensor.name);
        return out_.tensors.back();
    }

    std::optional<std::uint32_t> master_of(const std::string& name) const {
        const auto alias = source_.checkpoint.shared.find(name);
        const auto found = numbers_.find((alias == source_.checkpoint.shared.end() ? name : alias->second) + "/fp32");
        return found == numbers_.end() ? std::nullopt : std::optional{found->second};
    }

    [[noreturn]] void refuse(std::uint32_t t, std::string_view place) const {
        const bool open = source_.checkpoint.roles[t] == Role::state && !has_slashes(source_.checkpoint);
        throw Error{Exit::usage, "tensor '{}': optimizer state {}; pass --drop optimizer to omit it", tensors()[t].name,
                    open ? "of an unknown parameter" : fmt::format("that has no name in a {}", place)};
    }

    /// The weight of the state's parameter; model weights may have the prefix "model.".
    std::optional<std::uint32_t> weight_of(const State& state) {
        const auto recorded = recorded_weights_.find(state.parameter);
        if (recorded != recorded_weights_.end()) return recorded->second;
        for (const char* prefix : {"", "model."}) {
            const auto found = numbers_.find(prefix + state.parameter);
            if (found == numbers_.end()) continue;
            prefix_ = prefix;
            return found->second;
        }
        return std::nullopt;
    }

    void find_masters() {
        for (std::uint32_t t = 0; t < source_.checkpoint.roles.size(); ++t) {
            const Role role = source_.checkpoint.roles[t];
            if (role == Role::weight) recorded_weights_.emplace(parameter_of(source_.checkpoint, t), t);
            if (role == Role::master) masters_.emplace(parameter_of(source_.checkpoint, t), t);
        }
    }

    void add_weight(std::uint32_t t) {
        const std::string& name = tensors()[t].name;
        const auto known = weights_.find(t);
        if (known != weights_.end()) return void(add(known->second, Role::weight, t));
        if (state_of(source_.checkpoint, t)) return;
        const bool has_parameters = !source_.checkpoint.parameters.empty();
        if (source_.reading.meanings[t].kind == Meaning::Kind::extra || (!has_parameters && !name.starts_with(prefix_)))
            out_.dropped_names.push_back(name);
        else
            add(has_parameters ? source_.checkpoint.parameters[t] : name.substr(prefix_.size()), Role::weight, t);
    }

    const Source& source_;
    std::unordered_map<std::string, std::uint32_t> numbers_;
    std::unordered_map<std::uint32_t, std::string> weights_;  // parameters of weights with moments, by tensor number
    std::unordered_map<std::string, std::uint32_t> recorded_weights_;  // by parameter, if the checkpoint records roles
    std::unordered_map<std::string, std::uint32_t> masters_;           // the same
    std::string prefix_;
    ExpressedState out_;
};

}  // namespace

bool has_moments(const Source& source) {
    const auto& roles = source.checkpoint.roles;
    const auto has = [&](Role role) { return std::ranges::find(roles, role) != roles.end(); };
    return has(Role::exp_avg) && has(Role::exp_avg_sq);
}

bool renames_optimizer_state(const Source& source, const Target& target, const Dialect* dialect) {
    if (dialect != nullptr) return false;
    switch (target.format->state_names) {
        case StateNames::as_in_source:
            return false;
        case StateNames::by_torch:
            return has_slashes(source.checkpoint) && has_states(source);
        case StateNames::by_parameter:
            return counts_parameters(source.checkpoint);
        case StateNames::by_folder:
            return source.checkpoint.format->state_names != StateNames::by_folder && has_states(source);
    }
    return false;
}

ExpressedState rename_optimizer_state(const Source& source, const Target& target) {
    StateRenamer renamer{source};
    const StateNames names = target.format->state_names;
    if (names == StateNames::by_parameter) return renamer.to_names();
    return names == StateNames::by_folder ? renamer.to_deepspeed() : renamer.to_torch();
}

Dialect with_state_names(StateNames names, const Dialect& dialect) {
    Dialect named = dialect;
    if (names == StateNames::by_folder) {
        named.roles.clear();
        for (const auto& [role, state] : deepspeed_states)
            named.roles.push_back({role, fmt::format("*/{}", state), ""});
    } else if (names == StateNames::by_torch && dialect.roles.empty()) {
        named.roles.assign(torch_roles().begin(), torch_roles().end());
    }
    return named;
}

}  // namespace tpx::formats
