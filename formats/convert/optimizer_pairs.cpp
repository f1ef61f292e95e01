// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/optimizer_pairs.hpp"

#include "formats/encodings/torch/value.hpp"
#include "formats/state/common_optimizers.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <set>
#include <string_view>

namespace tpx::formats {
namespace {

/// Maps each canonical tensor to a key for its parameter: the same key for the parameter itself and its optimizer
/// state.
class Keys {
public:
    Keys(const Source& source, const CanonicalTensors& canonical) : source_{source}, canonical_{canonical} {}

    std::string operator()(std::size_t t) const {
        const Role role = canonical_.roles[t];
        const std::string& name = canonical_.tensors[t].name;
        const std::string prefix = fmt::format("{}.", role);
        const bool weight = role == Role::weight;
        const std::size_t stored = canonical_.stored[t];
        const Meaning& meaning = source_.reading.meanings[stored];
        if (!source_.checkpoint.roles.empty() && name == canonical_.stored_name(t))
            return std::string{parameter_of(source_.checkpoint, stored)};
        if (!weight && name.starts_with(prefix)) return name.substr(prefix.size());
        if (meaning.rule == nullptr || name != canonical_.stored_name(t)) return name;
        // The stored tensor was not split because sizes are unknown: its rule and numbers identify the parameter.
        return fmt::format("{} {} {}", fmt::join(meaning.rule->expression.parts, "+"),
                           meaning.indices.layer.value_or(-1), meaning.indices.expert.value_or(-1));
    }

    /// The parameter of the stored tensor with canonical tensor `t`, for checkpoints that record roles.
    std::string parameter(std::size_t t) const {
        return std::string{parameter_of(source_.checkpoint, canonical_.stored[t])};
    }

private:
    const Source& source_;
    const CanonicalTensors& canonical_;
};

/// The steps of the parameter groups in Megatron's common state.
std::vector<std::string> common_steps(const Checkpoint& checkpoint) {
    std::set<std::int64_t> steps;
    if (!checkpoint.common) return {};
    for (const OptimizerState& optimizer : optimizers_of(*checkpoint.common)) {
        for (const torch::Value group : optimizer.groups) {
            const auto step = group.is(torch::Kind::dict) ? group.find("step") : std::nullopt;
            if (step && step->is(torch::Kind::integer)) steps.insert(step->as_int());
        }
    }
    std::vector<std::string> texts;
    for (std::int64_t step : steps) texts.push_back(std::to_string(step));
    return texts;
}

class Pairer {
public:
    Pairer(const Source& source, const CanonicalTensors& canonical)
        : source_{source}, canonical_{canonical}, keys_{source, canonical} {}

    OptimizerPairs pair() {
        collect();
        bool weights = false;
        for (const auto& [name, parameter] : all_) {
            weights |= !parameter.states.empty() && parameter.weight >= 0;
            for (const auto& [role, t] : parameter.states) ++roles_[role];
        }
        for (auto& [name, parameter] : all_) {
            if (parameter.states.empty()) {
                result_.stateless.push_back(stored(static_cast<std::size_t>(parameter.weight)));
                continue;
            }
            check(parameter, weights);
            result_.parameters.push_back(std::move(parameter));
        }
        result_.steps = common_steps(source_.checkpoint);
        return std::move(result_);
    }

private:
    const std::string& stored(std::size_t t) const { return canonical_.stored_name(t); }

    /// The stored name of the parameter to which the stored tensor of `t` belongs.
    std::string parameter_stored(std::size_t t) const {
        if (!source_.checkpoint.roles.empty()) return keys_.parameter(t);
        for (const RolePattern& pattern : torch_roles())
            if (const auto star = wildcard_match(pattern.pattern, stored(t))) return std::string{*star};
        return stored(t);
    }

    /// Copies the step of a stored parameter to all of its parts. `parts` has their names by the parameter's stored
    /// name.
    void spread_steps(const std::map<std::string, std::vector<std::string>>& parts,
                      const std::map<std::string, std::uint32_t>& steps) {
        for (const auto& [name, step] : steps) {
            const auto found = parts.find(parameter_stored(step));
            if (found == parts.end()) continue;
            for (const std::string& part : found->second) all_.at(part).states[Role::step] = step;
            if (std::ranges::find(found->second, name) == found->second.end()) all_.erase(name);
        }
    }

    void collect() {
        std::map<std::string, std::vector<std::string>> parts;  // by the parameter's stored name
        std::map<std::string, std::uint32_t> steps;
        for (std::size_t t = 0; t < canonical_.tensors.size(); ++t) {
            const Role role = canonical_.roles[t];
            if (stored(t).find("optimizer.distributed.") != std::string::npos)
                throw failure("tensor '{}': optimizer state is in buckets that do not match args", stored(t));
            if (role == Role::extra || role == Role::copy) continue;
            const std::string name = keys_(t);
            ParameterState& parameter = all_[name];
            parameter.name = name;
            if (role == Role::weight)
                parameter.weight = static_cast<std::int64_t>(t);
            else
                parameter.states[role] = static_cast<std::uint32_t>(t);
            if (role == Role::exp_avg) parts[parameter_stored(t)].push_back(name);
            if (role == Role::step) steps.emplace(name, static_cast<std::uint32_t>(t));
        }
        spread_steps(parts, steps);
    }

    void check(const ParameterState& parameter, bool weights) {
        const std::uint32_t any = parameter.states.begin()->second;
        if (parameter.weight < 0) {
            if (weights && !source_.checkpoint.shared.contains(parameter.name))
                fault(any, "state of a missing parameter");
            return;
        }
        const auto w = static_cast<std::size_t>(parameter.weight);
        const Tensor& weight = canonical_.tensors[w];
        for (const auto& [role, t] : parameter.states) {
            const Tensor& state = canonical_.tensors[t];
            // Other optimizer state has different shapes: Adafactor's rows and columns, NAdam's products.
            if (role != Role::step && role != Role::state && state.shape != weight.shape)
                fault(t, fmt::format("has shape {}, but its parameter has {}", to_string(state.shape),
                                     to_string(weight.shape)));
        }
        // With Muon, matrices have momentum and other parameters have Adam's moments.
        const bool has_momentum = parameter.states.contains(Role::momentum_buffer);
        const bool has_moments = parameter.states.contains(Role::exp_avg);
        for (const auto& [role, count] : roles_) {
            if (parameter.states.contains(role) || (role == Role::master && !is_half(weight.dtype))) continue;
            if (has_moments && role == Role::momentum_buffer) continue;
            if (has_momentum && (role == Role::exp_avg || role == Role::exp_avg_sq)) continue;
            fault(w,
                  fmt::format("has no {}, but {} {} one", role, counted(count, "other"), count == 1 ? "has" : "have"));
        }
    }

    void fault(std::size_t t, const std::string& cause) {
        result_.faults.push_back(fmt::format("tensor '{}': {}", stored(t), cause));
    }

    const Source& source_;
    const CanonicalTensors& canonical_;
    Keys keys_;
    std::map<std::string, ParameterState> all_;
    std::map<Role, std::size_t> roles_;
    OptimizerPairs result_;
};

}  // namespace

OptimizerPairs pair_states(const Source& source, const CanonicalTensors& canonical) {
    return Pairer{source, canonical}.pair();
}

}  // namespace tpx::formats
