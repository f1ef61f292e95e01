// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/training_roles.hpp"

#include "formats/dcp/tied_weights.hpp"
#include "formats/encodings/torch/value.hpp"
#include "formats/state/optimizer_groups.hpp"
#include "formats/state/optimizer_order.hpp"
#include "formats/state/training_keys.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tpx::formats {
namespace {

using torch::Kind;
using torch::Value;
using Path = std::vector<std::string>;

// DeepSpeed's optimizers without ZeRO store the state_dict() of the optimizer that they wrap, and their master weights:
// a list for each group, or a vector. Such vectors are stored as one tensor for each parameter.
constexpr std::string_view wrapped_key = "optimizer_state_dict";
constexpr std::string_view masters_key = "fp32_groups";
constexpr std::string_view flat_masters_key = "fp32_groups_flat";

/// A tensor and its key path.
struct Placed {
    std::uint32_t tensor = 0;
    Path path;
};

/// The tensors that planner data contains, in the order of the saved dicts.
std::vector<Placed> placed_tensors(const Checkpoint& checkpoint) {
    std::unordered_map<std::string_view, std::uint32_t> numbers;
    const auto& tensors = checkpoint.catalogue.tensors;
    for (std::uint32_t t = 0; t < tensors.size(); ++t) numbers.emplace(tensors[t].name, t);
    std::vector<Placed> placed;
    for (const auto& [name, keys] : checkpoint.planner_data->entries()) {
        const auto number = name.is(Kind::string) ? numbers.find(name.as_string()) : numbers.end();
        if (number == numbers.end() || !keys.is(Kind::tuple)) continue;
        Placed& one = placed.emplace_back(Placed{number->second, {}});
        for (const Value key : keys.items())
            one.path.push_back(key.is(Kind::integer) ? std::to_string(key.as_int()) : std::string{key.as_string()});
    }
    return placed;
}

std::string joined(std::span<const std::string> keys) { return fmt::format("{}", fmt::join(keys, ".")); }

/// The number of keys in `path` that form the optimizer's root, "optim" in "optim.state.NAME.exp_avg"; unset for other
/// tensors.
std::optional<std::size_t> keys_of_root(const Path& path, std::string_view root) {
    if (path.size() < 4 || path[path.size() - 3] != "state") return std::nullopt;
    const std::size_t keys = path.size() - 3;
    return joined(std::span{path}.first(keys)) == root ? std::optional{keys} : std::nullopt;
}

std::optional<std::int64_t> number_of(const std::string& text) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional{number} : std::nullopt;
}

/// How many keys precede an optimizer's root: 0 for both "optim" and ("optimizer_states", "0").
std::size_t keys_above(const Path& path, std::size_t keys_of_root) {
    const bool in_list = keys_of_root > 1 && number_of(path[keys_of_root - 1]);
    return keys_of_root - (in_list ? 2 : 1);
}

class RoleAssigner {
public:
    RoleAssigner(Checkpoint& checkpoint, std::set<std::string> roots, std::span<const OptimizerGroup> groups)
        : checkpoint_{checkpoint}, roots_{std::move(roots)}, groups_{groups}, placed_{placed_tensors(checkpoint)} {
        find_wrapper();
    }

    void assign() {
        const auto& tensors = checkpoint_.catalogue.tensors;
        find_weights();
        if (weights_.empty()) return;
        checkpoint_.roles.assign(tensors.size(), Role::extra);
        for (const Tensor& tensor : tensors) checkpoint_.parameters.push_back(tensor.name);
        for (const auto& [name, t] : weights_) set(t, Role::weight, name);
        const bool several = roots_.size() > 1;
        if (has_parts_) return assign_parts();
        const auto names = several && !divide_parameters() ? std::nullopt : names_of_params();
        if (names) assign_masters(*names);
        if (!names)
            checkpoint_.notes.emplace_back(
                several ? "the roles of optimizer state are unknown, because there are several optimizers"
                        : unresolved_numbers_note);
        for (const Placed& one : placed_) {
            if (!keys_of_state(one.path)) continue;
            const std::string& param = one.path[one.path.size() - 2];
            const auto name = names ? names->find(param) : std::map<std::string, std::string>::const_iterator{};
            if (names && name != names->end())
                set(one.tensor, role_of_state(one.path.back()), name->second);
            else
                checkpoint_.roles[one.tensor] = Role::state;
        }
    }

private:
    void set(std::uint32_t tensor, Role role, std::string parameter) {
        checkpoint_.roles[tensor] = role;
        checkpoint_.parameters[tensor] = std::move(parameter);
    }

    /// Finds DeepSpeed's wrapper of the optimizer: its keys precede both wrapped_key and the key of the masters.
    void find_wrapper() {
        for (const auto& [tensor, path] : placed_) {
            const auto key = std::ranges::find_if(
                path, [](const std::string& part) { return part == masters_key || part == flat_masters_key; });
            if (key == path.begin() || key == path.end()) continue;
            const auto keys = static_cast<std::size_t>(key - path.begin());
            Path root(path.begin(), key);
            root.emplace_back(wrapped_key);
            if (!roots_.contains(joined(root))) continue;
            wrapper_ = keys;
            has_parts_ = *key == flat_masters_key && path.size() == keys + 3;
            return;
        }
    }

    bool is_master(const Path& path) const {
        return wrapper_ && path.size() == *wrapper_ + 3 &&
               path[*wrapper_] == (has_parts_ ? flat_masters_key : masters_key);
    }

    void assign_masters(const std::map<std::string, std::string>& names) {
        for (const Placed& one : placed_) {
            if (!is_master(one.path)) continue;
            const auto group = number_of(one.path[*wrapper_ + 1]), k = number_of(one.path[*wrapper_ + 2]);
            if (!group || !k || *group < 0 || *k < 0 || std::cmp_greater_equal(*group, groups_.size())) continue;
            const auto& params = groups_[static_cast<std::size_t>(*group)].params;
            const auto name =
                std::cmp_less(*k, params.size()) ? names.find(params[static_cast<std::size_t>(*k)]) : names.end();
            if (name != names.end()) set(one.tensor, Role::master, name->second);
        }
    }

    /// Assigns the parts of vectors, whose last key is the parameter.
    void assign_parts() {
        const std::size_t state = *wrapper_ + 1;
        for (const auto& [tensor, path] : placed_) {
            if (is_master(path)) set(tensor, Role::master, unwrapped(path.back()));
            if (path.size() == state + 4 && path[state] == "state" && path[*wrapper_] == wrapped_key)
                set(tensor, role_of_state(path[state + 2]), unwrapped(path.back()));
        }
    }

    std::optional<std::size_t> keys_of_state(const Path& path) const {
        for (const std::string& root : roots_)
            if (const auto keys = keys_of_root(path, root)) return keys;
        return std::nullopt;
    }

    const Tensor& tensor(const Placed& one) const { return checkpoint_.catalogue.tensors[one.tensor]; }

    /// Finds the weights next to the optimizer: below the first of weight_keys that is present, or else directly there.
    void find_weights() {
        const auto state = std::ranges::find_if(
            placed_, [&](const Placed& one) { return keys_of_state(one.path) || is_master(one.path); });
        if (state == placed_.end()) return;
        const std::size_t above = wrapper_ ? *wrapper_ - 1 : keys_above(state->path, *keys_of_state(state->path));
        const auto beside = [&](const Path& path) {
            return path.size() > above &&
                   std::equal(path.begin(), path.begin() + std::ptrdiff_t(above), state->path.begin());
        };
        for (const std::string_view key : weight_keys) {
            for (const Placed& one : placed_)
                if (beside(one.path) && one.path.size() > above + 1 && one.path[above] == key)
                    weights_.emplace_back(unwrapped(joined(std::span{one.path}.subspan(above + 1))), one.tensor);
            if (!weights_.empty()) return;
        }
        for (const Placed& one : placed_)
            if (beside(one.path) && one.path.size() == above + 1)
                weights_.emplace_back(unwrapped(one.path.back()), one.tensor);
    }

    /// Whether the optimizers name their parameters, which are weights, each in only one optimizer: Muon for matrices
    /// and AdamW for the others, for example.
    bool divide_parameters() const {
        std::set<std::string_view> weights, seen;
        for (const auto& [name, t] : weights_) weights.insert(name);
        for (const OptimizerGroup& group : groups_)
            for (const std::string& param : group.params)
                if (group.numbered || !weights.contains(unwrapped(param)) || !seen.insert(param).second) return false;
        return true;
    }

    /// The parameter of each entry in the groups' "params"; unset if numbers are ambiguous.
    std::optional<std::map<std::string, std::string>> names_of_params() {
        std::map<std::string, std::string> names;
        const bool numbered = std::ranges::any_of(groups_, &OptimizerGroup::numbered);
        std::vector<std::vector<std::int64_t>> numbers;
        for (const OptimizerGroup& group : groups_) {
            auto& own = numbers.emplace_back();
            for (const std::string& param : group.params) {
                names.emplace(param, unwrapped(param));
                if (numbered) own.push_back(number_of(param).value_or(-1));
            }
        }
        if (!numbered) return names;
        std::vector<std::string> found = parameters_by_number(entries({}), numbers, shapes());
        if (found.empty()) found = without_tied(numbers);
        if (found.empty()) return std::nullopt;
        for (std::size_t k = 0; k < found.size(); ++k) names[std::to_string(k)] = found[k];
        return names;
    }

    /// Tries the same without tied parameters: those that repeat others, if the optimizer has exactly that many fewer
    /// parameters than the model.
    std::vector<std::string> without_tied(const std::vector<std::vector<std::int64_t>>& numbers) {
        std::size_t count = 0;
        for (const auto& group : numbers) count += group.size();
        const auto all = entries({});
        const auto trained = static_cast<std::size_t>(std::ranges::count(all, true, &StateDictEntry::parameter));
        if (trained <= count) return {};
        std::vector<std::uint32_t> tensors;
        for (const auto& [name, t] : weights_) tensors.push_back(t);
        const auto tied = repeated_matrices(checkpoint_, tensors);
        if (tied.size() != trained - count) return {};
        std::vector<std::string> found = parameters_by_number(entries(tied), numbers, shapes());
        for (const auto& [copy, original] : tied) {
            if (found.empty()) break;
            checkpoint_.notes.push_back(fmt::format(
                "tensor '{}': is tied to '{}', because both have the same values and the optimizer has one of them",
                checkpoint_.catalogue.tensors[copy].name, checkpoint_.catalogue.tensors[original].name));
        }
        return found;
    }

    std::vector<StateDictEntry> entries(const std::map<std::uint32_t, std::uint32_t>& tied) const {
        std::vector<StateDictEntry> entries;
        for (const auto& [name, t] : weights_) {
            const Tensor& tensor = checkpoint_.catalogue.tensors[t];
            const bool real = is_real(tensor.dtype) || is_complex(tensor.dtype);
            entries.push_back({name, tensor.shape, real && !is_running_statistic(name) && !tied.contains(t)});
        }
        return entries;
    }

    std::map<std::int64_t, Shape> shapes() const {
        std::map<std::int64_t, Shape> shapes;
        for (const Placed& one : placed_) {
            if (!keys_of_state(one.path) || one.path.back() == "step") continue;
            if (const auto number = number_of(one.path[one.path.size() - 2]))
                note_shape(shapes, *number, tensor(one).shape);
        }
        return shapes;
    }

    Checkpoint& checkpoint_;
    std::set<std::string> roots_;
    std::span<const OptimizerGroup> groups_;
    std::vector<Placed> placed_;
    std::vector<std::pair<std::string, std::uint32_t>> weights_;  // parameter names and tensor numbers
    std::optional<std::size_t> wrapper_;  // the number of keys of DeepSpeed's wrapper of the optimizer
    bool has_parts_ = false;              // whether it has vectors of groups, stored as one tensor for each parameter
};

/// NAME and "exp_avg" of the path ("optim", "state", NAME, "exp_avg") or, flattened, ("optim", "state.NAME.exp_avg").
std::optional<std::pair<std::string, std::string>> state_at(const Path& path) {
    if (path.size() == 4 && path[1] == "state") return std::pair{path[2], path[3]};
    return path.size() == 2 ? state_entry(path[1]) : std::nullopt;
}

/// Sets roles and parameters of {"model": WEIGHTS, ...}, possibly with an optimizer that names its parameters, by the
/// names below those keys.
void set_roles_below_keys(Checkpoint& checkpoint) {
    const std::vector<Placed> placed = placed_tensors(checkpoint);
    const auto is_below = [&](std::string_view key) {
        return [key](const Placed& one) { return one.path.size() > 1 && one.path[0] == key; };
    };
    const auto* const key =
        std::ranges::find_if(weight_keys, [&](std::string_view k) { return std::ranges::any_of(placed, is_below(k)); });
    if (key == weight_keys.end()) return;
    const std::size_t count = checkpoint.catalogue.tensors.size();
    std::vector<Role> roles(count, Role::extra);
    std::vector<std::string> parameters(count);
    std::set<std::string> weights;
    for (std::size_t t = 0; t < count; ++t) parameters[t] = checkpoint.catalogue.tensors[t].name;
    for (const Placed& one : placed) {
        if (!is_below(*key)(one)) continue;
        roles[one.tensor] = Role::weight;
        parameters[one.tensor] = unwrapped(joined(std::span{one.path}.subspan(1)));
        weights.insert(parameters[one.tensor]);
    }
    for (const Placed& one : placed) {
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

/// Sets roles and parameters of {"state": {NAME: {"exp_avg": ...}}, ...}, the state_dict() of an optimizer alone;
/// returns whether `checkpoint` has this form.
bool set_roles_of_optimizer(Checkpoint& checkpoint) {
    const auto is_below_state = [](const Tensor& tensor) { return tensor.name.starts_with("state."); };
    if (!std::ranges::all_of(checkpoint.catalogue.tensors, is_below_state)) return false;
    const std::vector<Placed> placed = placed_tensors(checkpoint);
    const auto is_state = [](const Placed& one) {
        return one.path.size() == 3 && one.path[0] == "state" && !number_of(one.path[1]);
    };
    const auto is_known = [](const Placed& one) { return role_of_state(one.path.back()) != Role::state; };
    const std::size_t count = checkpoint.catalogue.tensors.size();
    if (placed.size() != count || !std::ranges::all_of(placed, is_state) || std::ranges::none_of(placed, is_known))
        return false;
    checkpoint.roles.assign(count, Role::state);
    checkpoint.parameters.resize(count);
    for (const Placed& one : placed) {
        checkpoint.parameters[one.tensor] = unwrapped(one.path[1]);
        checkpoint.roles[one.tensor] = role_of_state(one.path[2]);
    }
    return true;
}

}  // namespace

void assign_training_roles(Checkpoint& checkpoint) {
    if (!checkpoint.planner_data || set_roles_of_optimizer(checkpoint)) return;
    const std::vector<OptimizerGroup> groups = optimizer_groups(checkpoint.catalogue);
    if (groups.empty()) return set_roles_below_keys(checkpoint);
    std::set<std::string> roots;
    for (const OptimizerGroup& group : groups) roots.insert(group.root);
    const std::string& root = groups[0].root;
    const bool numbered = std::ranges::any_of(groups, &OptimizerGroup::numbered);
    // Families' rules recognize the names of optimizer state below a top-level "optim" or "optimizer".
    if (!numbered && (root == "optim" || root == "optimizer")) return set_roles_below_keys(checkpoint);
    RoleAssigner{checkpoint, std::move(roots), groups}.assign();
}

}  // namespace tpx::formats
