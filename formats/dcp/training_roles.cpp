// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/training_roles.hpp"

#include "formats/dcp/roles_by_key.hpp"
#include "formats/dcp/tensor_paths.hpp"
#include "formats/dcp/tied_weights.hpp"
#include "formats/state/optimizer_groups.hpp"
#include "formats/state/optimizer_order.hpp"
#include "formats/state/training_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tpx::formats {
namespace {

// DeepSpeed's optimizers without ZeRO store the state_dict() of the optimizer that they wrap, and their master weights:
// a list for each group, or a vector. Such vectors are stored as one tensor for each parameter.
constexpr std::string_view wrapped_key = "optimizer_state_dict";
constexpr std::string_view masters_key = "fp32_groups";
constexpr std::string_view flat_masters_key = "fp32_groups_flat";

/// The number of keys in `path` that form the optimizer's root, "optim" in "optim.state.NAME.exp_avg"; unset for other
/// tensors.
std::optional<std::size_t> keys_of_root(const KeyNames& path, std::string_view root) {
    if (path.size() < 4 || path[path.size() - 3] != "state") return std::nullopt;
    const std::size_t keys = path.size() - 3;
    return joined(std::span{path}.first(keys)) == root ? std::optional{keys} : std::nullopt;
}

/// How many keys precede an optimizer's root: 0 for both "optim" and ("optimizer_states", "0").
std::size_t keys_above(const KeyNames& path, std::size_t keys_of_root) {
    const bool in_list = keys_of_root > 1 && key_number(path[keys_of_root - 1]);
    return keys_of_root - (in_list ? 2 : 1);
}

class RoleAssigner {
public:
    RoleAssigner(Checkpoint& checkpoint, std::set<std::string> roots, std::span<const OptimizerGroup> groups)
        : checkpoint_{checkpoint}, roots_{std::move(roots)}, groups_{groups}, paths_{tensor_paths(checkpoint)} {
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
        for (const TensorPath& one : paths_) {
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
        for (const auto& [tensor, path] : paths_) {
            const auto key = std::ranges::find_if(
                path, [](const std::string& part) { return part == masters_key || part == flat_masters_key; });
            if (key == path.begin() || key == path.end()) continue;
            const auto keys = static_cast<std::size_t>(key - path.begin());
            KeyNames root(path.begin(), key);
            root.emplace_back(wrapped_key);
            if (!roots_.contains(joined(root))) continue;
            wrapper_ = keys;
            has_parts_ = *key == flat_masters_key && path.size() == keys + 3;
            return;
        }
    }

    bool is_master(const KeyNames& path) const {
        return wrapper_ && path.size() == *wrapper_ + 3 &&
               path[*wrapper_] == (has_parts_ ? flat_masters_key : masters_key);
    }

    void assign_masters(const std::map<std::string, std::string>& names) {
        for (const TensorPath& one : paths_) {
            if (!is_master(one.path)) continue;
            const auto group = key_number(one.path[*wrapper_ + 1]), k = key_number(one.path[*wrapper_ + 2]);
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
        for (const auto& [tensor, path] : paths_) {
            if (is_master(path)) set(tensor, Role::master, unwrapped(path.back()));
            if (path.size() == state + 4 && path[state] == "state" && path[*wrapper_] == wrapped_key)
                set(tensor, role_of_state(path[state + 2]), unwrapped(path.back()));
        }
    }

    std::optional<std::size_t> keys_of_state(const KeyNames& path) const {
        for (const std::string& root : roots_)
            if (const auto keys = keys_of_root(path, root)) return keys;
        return std::nullopt;
    }

    const Tensor& tensor(const TensorPath& one) const { return checkpoint_.catalogue.tensors[one.tensor]; }

    /// Finds the weights next to the optimizer: below the first of weight_keys that is present, or else directly there.
    void find_weights() {
        const auto state = std::ranges::find_if(
            paths_, [&](const TensorPath& one) { return keys_of_state(one.path) || is_master(one.path); });
        if (state == paths_.end()) return;
        const std::size_t above = wrapper_ ? *wrapper_ - 1 : keys_above(state->path, *keys_of_state(state->path));
        const auto beside = [&](const KeyNames& path) {
            return path.size() > above &&
                   std::equal(path.begin(), path.begin() + std::ptrdiff_t(above), state->path.begin());
        };
        for (const std::string_view key : weight_keys) {
            for (const TensorPath& one : paths_)
                if (beside(one.path) && one.path.size() > above + 1 && one.path[above] == key)
                    weights_.emplace_back(unwrapped(joined(std::span{one.path}.subspan(above + 1))), one.tensor);
            if (!weights_.empty()) return;
        }
        for (const TensorPath& one : paths_)
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
                if (numbered) own.push_back(key_number(param).value_or(-1));
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
        for (const TensorPath& one : paths_) {
            if (!keys_of_state(one.path) || one.path.back() == "step") continue;
            if (const auto number = key_number(one.path[one.path.size() - 2]))
                note_shape(shapes, *number, tensor(one).shape);
        }
        return shapes;
    }

    Checkpoint& checkpoint_;
    std::set<std::string> roots_;
    std::span<const OptimizerGroup> groups_;
    std::vector<TensorPath> paths_;
    std::vector<std::pair<std::string, std::uint32_t>> weights_;  // parameter names and tensor numbers
    std::optional<std::size_t> wrapper_;  // the number of keys of DeepSpeed's wrapper of the optimizer
    bool has_parts_ = false;              // whether it has vectors of groups, stored as one tensor for each parameter
};

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
