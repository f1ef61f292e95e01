// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/training_roles.hpp"

#include "formats/dcp/optimizer_groups.hpp"
#include "formats/optimizer_order.hpp"
#include "formats/torch/value.hpp"
#include "formats/training_keys.hpp"

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

/// A tensor, and the keys on the way to it.
struct Placed {
    std::uint32_t tensor = 0;
    Path path;
};

/// The tensors in the order of the dicts that were saved, as far as planner data places them.
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

/// What a tensor is state of: "optim.state.NAME.exp_avg", of which the flattened form keeps all behind "optim" in one
/// key.
struct State {
    std::size_t above = 0;  ///< keys before the optimizer's own
    std::string root;       ///< "optim"
    std::string param;
    std::string name;  ///< "exp_avg"
};

std::optional<State> state_at(const Path& path) {
    constexpr std::string_view flattened = "state.";
    if (path.size() >= 4 && path[path.size() - 3] == "state")
        return State{path.size() - 4, joined(std::span{path}.first(path.size() - 3)), path[path.size() - 2],
                     path.back()};
    if (path.size() < 2 || !path.back().starts_with(flattened)) return std::nullopt;
    const std::string& last = path.back();
    const std::size_t dot = last.rfind('.');
    if (dot < flattened.size()) return std::nullopt;
    return State{path.size() - 2, joined(std::span{path}.first(path.size() - 1)),
                 last.substr(flattened.size(), dot - flattened.size()), last.substr(dot + 1)};
}

std::optional<std::int64_t> number_of(const std::string& text) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional{number} : std::nullopt;
}

/// The keys before the one of `weight_keys` that stands nearest to the top; null when there is none.
std::optional<std::span<const std::string>> way_to_weights(std::span<const Placed> placed) {
    std::optional<std::span<const std::string>> nearest;
    for (const Placed& one : placed) {
        const auto last = one.path.end() - 1;
        const auto key = std::find_first_of(one.path.begin(), last, weight_keys.begin(), weight_keys.end());
        const auto keys = static_cast<std::size_t>(key - one.path.begin());
        if (key != last && (!nearest || keys < nearest->size())) nearest = std::span{one.path}.first(keys);
    }
    return nearest;
}

class Teller {
public:
    /// Of the optimizer at `root`; empty: there is none.
    Teller(Checkpoint& checkpoint, std::vector<Placed> placed, std::string root, std::span<const OptimizerGroup> groups)
        : checkpoint_{checkpoint}, root_{std::move(root)}, groups_{groups}, placed_{std::move(placed)} {}

    void tell() {
        const auto& tensors = checkpoint_.catalogue.tensors;
        find_weights();
        if (weights_.empty()) return;
        checkpoint_.roles.assign(tensors.size(), "extra");
        for (const Tensor& tensor : tensors) checkpoint_.parameters.push_back(tensor.name);
        for (const auto& [name, t] : weights_) set(t, "weight", name);
        const bool numbered = std::ranges::any_of(groups_, &OptimizerGroup::numbered);
        const std::map<std::string, std::string> names =
            numbered ? parameters_of_numbers() : std::map<std::string, std::string>{};
        if (numbered && names.empty()) checkpoint_.notes.push_back(numbers_leave_open);
        for (const Placed& one : placed_)
            if (const auto state = state_of(one)) tell_state(one.tensor, *state, numbered, names);
    }

private:
    std::optional<State> state_of(const Placed& one) const {
        auto state = state_at(one.path);
        return state && state->root == root_ ? state : std::nullopt;
    }

    void set(std::uint32_t tensor, std::string_view role, std::string parameter) {
        checkpoint_.roles[tensor] = role;
        checkpoint_.parameters[tensor] = std::move(parameter);
    }

    void tell_state(std::uint32_t tensor, const State& state, bool numbered,
                    const std::map<std::string, std::string>& names) {
        checkpoint_.roles[tensor] = "state";
        if (!numbered) return set(tensor, role_of_state(state.name), unwrapped(state.param));
        if (const auto name = names.find(state.param); name != names.end())
            set(tensor, role_of_state(state.name), name->second);
    }

    const Tensor& tensor(const Placed& one) const { return checkpoint_.catalogue.tensors[one.tensor]; }

    /// Those under the first key that a model is called by, beside the optimizer or nearest to the top; or, beside an
    /// optimizer, under none.
    void find_weights() {
        std::optional<std::span<const std::string>> beside;
        for (const Placed& one : placed_)
            if (const auto state = state_of(one); state && !beside) beside = std::span{one.path}.first(state->above);
        if (beside) find_below_keys(*beside);
        if (const auto way = way_to_weights(placed_); way && weights_.empty()) find_below_keys(*way);
        if (!beside || !weights_.empty()) return;
        for (const Placed& one : placed_)
            if (one.path.size() == beside->size() + 1 && is_below(one.path, *beside))
                weights_.emplace_back(unwrapped(one.path.back()), one.tensor);
    }

    static bool is_below(const Path& path, std::span<const std::string> way) {
        return path.size() > way.size() && std::ranges::equal(std::span{path}.first(way.size()), way);
    }

    void find_below_keys(std::span<const std::string> way) {
        for (const std::string_view key : weight_keys) {
            for (const Placed& one : placed_)
                if (is_below(one.path, way) && one.path.size() > way.size() + 1 && one.path[way.size()] == key)
                    weights_.emplace_back(unwrapped(joined(std::span{one.path}.subspan(way.size() + 1))), one.tensor);
            if (!weights_.empty()) return;
        }
    }

    /// The parameter behind each number; empty when the model leaves it open.
    std::map<std::string, std::string> parameters_of_numbers() const {
        std::vector<std::vector<std::int64_t>> numbers;
        for (const OptimizerGroup& group : groups_) {
            auto& own = numbers.emplace_back();
            for (const std::string& param : group.params) own.push_back(number_of(param).value_or(-1));
        }
        std::map<std::string, std::string> names;
        const std::vector<std::string> found = parameters_by_number(entries(), numbers, shapes());
        for (std::size_t k = 0; k < found.size(); ++k) names[std::to_string(k)] = found[k];
        return names;
    }

    std::vector<StateDictEntry> entries() const {
        std::vector<StateDictEntry> entries;
        for (const auto& [name, t] : weights_) {
            const Tensor& tensor = checkpoint_.catalogue.tensors[t];
            const bool real = is_real(tensor.dtype) || is_complex(tensor.dtype);
            entries.push_back({name, tensor.shape, real && !is_running_statistic(name)});
        }
        return entries;
    }

    std::map<std::int64_t, Shape> shapes() const {
        std::map<std::int64_t, Shape> shapes;
        for (const Placed& one : placed_) {
            const auto state = state_of(one);
            if (!state || state->name == "step") continue;
            if (const auto number = number_of(state->param)) note_shape(shapes, *number, tensor(one).shape);
        }
        return shapes;
    }

    Checkpoint& checkpoint_;
    std::string root_;
    std::span<const OptimizerGroup> groups_;
    std::vector<Placed> placed_;
    std::vector<std::pair<std::string, std::uint32_t>> weights_;  // their names as parameters
};

constexpr const char* several_optimizers = "there are several optimizers, whose state is no role";

}  // namespace

void tell_training_roles(Checkpoint& checkpoint) {
    if (!checkpoint.planner_data) return;
    const std::vector<OptimizerGroup> groups = optimizer_groups(checkpoint.catalogue);
    if (groups.empty()) return;
    const std::string& root = groups[0].root;
    const bool one = std::ranges::all_of(groups, [&](const OptimizerGroup& group) { return group.root == root; });
    const bool numbered = std::ranges::any_of(groups, &OptimizerGroup::numbered);
    // Families' rules read names of the first two forms by themselves.
    if (!numbered && (root == "optim" || root == "optimizer")) return;
    if (one)
        Teller{checkpoint, placed_tensors(checkpoint), root, groups}.tell();
    else
        checkpoint.notes.push_back(several_optimizers);
}

bool tell_roles_by_keys(Checkpoint& checkpoint) {
    if (!checkpoint.planner_data || !checkpoint.roles.empty()) return false;
    std::vector<Placed> placed = placed_tensors(checkpoint);
    std::set<std::string> roots;
    for (const Placed& one : placed)
        if (auto state = state_at(one.path)) roots.insert(std::move(state->root));
    if (roots.size() > 1) return false;
    Teller{checkpoint, std::move(placed), roots.empty() ? "" : *roots.begin(), {}}.tell();
    return !checkpoint.roles.empty();
}

}  // namespace tpx::formats
