// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/training_roles.hpp"

#include "formats/state/training_keys.hpp"
#include "formats/torch/flattened_optimizer.hpp"
#include "formats/torch/optimizer_dict.hpp"
#include "formats/torch/parameter_numbers.hpp"
#include "formats/torch/steps.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

namespace tpx::formats {
namespace {

using torch::Archive;
using torch::Entry;
using torch::Kind;
using torch::Value;

std::span<const Entry> entries_of(Value value) {
    return value.is(Kind::dict) || value.is(Kind::object) ? value.entries() : std::span<const Entry>{};
}

bool has_tensors(Value value) {
    return std::ranges::any_of(entries_of(value), [](const Entry& entry) {
        return entry.key.is(Kind::string) && Archive::is_tensor(entry.value);
    });
}

class Reader {
public:
    Reader(const Archive& archive, const TrainingTensors& training)
        : archive_{archive}, tensors_{training.tensors}, parts_{training.parts} {
        for (std::size_t t = 0; t < tensors_.size(); ++t) numbers_.emplace(tensors_[t].name, t);
    }

    std::optional<TrainingRoles> read() {
        if (entries_of(root_).empty()) return std::nullopt;
        find_weights();
        if (weights_.empty() && descend()) find_weights();
        if (weights_.empty()) return read_optimizer_alone();
        start_roles();
        name_weights();
        for (const Entry& entry : root_.entries())
            if (entry.key.is(Kind::string) && !state_dict_in(entry.value).is_none()) optimizers_.push_back(entry);
        mark_unread();
        for (const Entry& optimizer : optimizers_) mark_state(optimizer);
        if (optimizers_.size() == 1) read_optimizer();
        if (optimizers_.size() > 1)
            training_.notes.push_back("the roles of optimizer state are unknown, because there are several optimizers");
        const bool names_suffice =
            optimizers_.empty() && !training_.adam && std::ranges::all_of(tensors_, [&](const auto& named) {
                const std::size_t t = numbers_.at(named.name);
                return is_state(named.name) ||
                       (training_.roles[t] == Role::weight && training_.parameters[t] == named.name);
            });
        if (names_suffice) return std::nullopt;
        return std::move(training_);
    }

private:
    /// Whether a top-level key is DCP's name of optimizer state.
    static bool is_state(std::string_view name) {
        return std::ranges::any_of(torch_roles(),
                                   [&](const RolePattern& p) { return wildcard_match(p.pattern, name).has_value(); });
    }

    /// Enters the only dict of the file, such as {"app": {"model": WEIGHTS, "optim": STATE_DICT}}; false if there are
    /// others or it has no optimizer.
    bool descend() {
        const auto is_dict = [](const Entry& entry) {
            return entry.key.is(Kind::string) && entry.value.is(Kind::dict);
        };
        const auto entries = entries_of(root_);
        const auto only = std::ranges::find_if(entries, is_dict);
        if (std::ranges::count_if(entries, is_dict) != 1) return false;
        const bool trained = std::ranges::any_of(
            (*only).value.entries(), [](const Entry& entry) { return !state_dict_in(entry.value).is_none(); });
        if (!trained) return false;
        above_ = fmt::format("{}.", (*only).key.as_string());
        root_ = (*only).value;
        return true;
    }

    void find_weights() {
        Value container = root_;
        std::string prefix = above_;
        for (const std::string_view key : weight_keys) {
            const auto found = root_.find(key);
            if (!found || Archive::is_tensor(*found) || !has_tensors(*found)) continue;
            container = *found;
            prefix = fmt::format("{}{}.", above_, key);
            break;
        }
        for (const Entry& entry : container.entries()) {
            if (!entry.key.is(Kind::string) || !Archive::is_tensor(entry.value)) continue;
            const auto number = numbers_.find(fmt::format("{}{}", prefix, entry.key.as_string()));
            if (number == numbers_.end()) continue;
            (is_state(entry.key.as_string()) ? states_ : weights_).emplace_back(entry.key.as_string(), number->second);
        }
    }

    void start_roles() {
        training_.roles.assign(tensors_.size(), Role::extra);
        for (const torch::NamedTensor& named : tensors_) training_.parameters.push_back(named.name);
    }

    /// Reads a file that contains nothing but an optimizer's state_dict() by parameters' names, as FSDP gathers it.
    std::optional<TrainingRoles> read_optimizer_alone() {
        const Value root = archive_.root();
        if (state_dict_in(root).is_none() || !path_of_state_dict(root).empty()) return std::nullopt;
        const auto is_named = [](const Entry& state) { return state.key.is(Kind::string); };
        const auto states = entries_of(root.at("state"));
        if (states.empty() || !std::ranges::all_of(states, is_named)) return std::nullopt;
        start_roles();
        optimizer_ = root;
        prefix_ = "state.";
        read_states({});
        return std::move(training_);
    }

    /// Removes prefixes that model wrappers add to every key.
    void name_weights() {
        for (bool again = true; again;) {
            again = false;
            for (const std::string_view wrapper : wrappers) {
                if (!std::ranges::all_of(weights_, [&](const auto& w) { return w.first.starts_with(wrapper); }))
                    continue;
                for (auto& [name, number] : weights_) name.erase(0, wrapper.size());
                again = true;
            }
        }
        for (const auto& [name, number] : weights_) {
            training_.roles[number] = Role::weight;
            training_.parameters[number] = name;
        }
        for (const auto& [name, number] : states_) {
            for (const RolePattern& pattern : torch_roles()) {
                const auto parameter = wildcard_match(pattern.pattern, name);
                if (!parameter) continue;
                training_.roles[number] = pattern.role;
                training_.parameters[number] = *parameter;
            }
        }
    }

    // --- the optimizer

    /// Reads optimizers whose entries are named by parameter; marks tensors below an optimizer's key as state if its
    /// form is not supported.
    void mark_unread() {
        for (const std::string_view key : {"optimizer", "optimizer_states", "optimizer_state_dict", "optim"}) {
            const auto is_key = [&](const Entry& entry) { return entry.key.as_string() == key; };
            if (std::ranges::any_of(optimizers_, is_key)) continue;
            for (const auto& [name, number] : numbers_)
                if (name.starts_with(fmt::format("{}{}.", above_, key)) && training_.roles[number] == Role::extra)
                    training_.roles[number] = Role::state;
            read_flattened_optimizer(archive_, root_, above_, key, tensors_, training_);
        }
    }

    /// Marks the optimizer's tensors as state; their parameters may be found later.
    void mark_state(const Entry& optimizer) {
        const std::string prefix = state_prefix(optimizer);
        const std::string masters = fmt::format("{}{}.{}.", above_, optimizer.key.as_string(), flat_masters_key);
        for (const auto& [name, number] : numbers_)
            if (name.starts_with(prefix) || name.starts_with(masters)) training_.roles[number] = Role::state;
    }

    std::string state_prefix(const Entry& optimizer) const {
        return fmt::format("{}{}{}.state.", above_, optimizer.key.as_string(), path_of_state_dict(optimizer.value));
    }

    void read_optimizer() {
        const Entry& entry = optimizers_[0];
        optimizer_ = state_dict_in(entry.value);
        prefix_ = state_prefix(entry);
        if (!parts_.empty()) return read_parts();
        find_masters(entry);
        const auto names =
            names_of_numbers({.archive = archive_, .tensors = tensors_, .weights = weights_, .masters = masters_},
                             optimizer_, training_.notes);
        if (!names) {
            training_.notes.push_back(unresolved_numbers_note);
            return;
        }
        read_states(*names);
    }

    /// Reads state and settings of the optimizer; `names` are those of numbered parameters.
    void read_states(const std::map<std::int64_t, std::string>& names) {
        for (const Entry& state : optimizer_.at("state").entries())
            if (state.value.is(Kind::dict)) add_states(state, names);
        add_masters(names);
        const std::vector<Value> all = parameter_groups(optimizer_);
        for (std::size_t g = 0; g < all.size(); ++g) add_settings(all[g], static_cast<int>(g), names);
        steps_.set(adam_);
        if (!adam_.own.empty()) training_.adam = std::move(adam_);
    }

    /// Reads an optimizer whose vectors were split into one part for each parameter.
    void read_parts() {
        std::map<std::string, std::string> names;
        for (const auto& [name, number] : weights_) names.emplace(tensors_[number].name, name);
        const std::vector<Value> groups = parameter_groups(optimizer_);
        for (const FlatPart& part : parts_) {
            training_.roles[part.tensor] = part.role;
            training_.parameters[part.tensor] = names.at(part.weight);
            if (part.role != Role::exp_avg || part.group >= groups.size()) continue;
            const std::string& moment = tensors_[part.tensor].name;
            adam_.own[moment] = settings_of(groups[part.group]);
            adam_.groups[moment] = static_cast<int>(part.group);
        }
        for (const Entry& state : optimizer_.at("state").entries())
            if (const auto step = state.value.find("step")) steps_.note(archive_, *step);
        steps_.set(adam_);
        if (!adam_.own.empty()) training_.adam = std::move(adam_);
    }

    AdamSettings settings_of(Value group) const {
        AdamSettings settings;
        for (const Entry& entry : group.entries())
            if (entry.key.is(Kind::string)) set(settings, entry.key.as_string(), entry.value, &archive_);
        return settings;
    }

    /// Finds the master weights of numbered parameters. Until the parameters are known, they are state.
    void find_masters(const Entry& optimizer) {
        const std::string key = fmt::format("{}{}", above_, optimizer.key.as_string());
        for (const auto& [parameter, path] : paths_of_masters(optimizer.value)) {
            const auto number = numbers_.find(key + path);
            if (number == numbers_.end()) continue;
            masters_.emplace(parameter, number->second);
            training_.roles[number->second] = Role::state;
        }
    }

    void add_masters(const std::map<std::int64_t, std::string>& names) {
        for (const auto& [parameter, number] : masters_) {
            const auto name = names.find(parameter);
            if (name == names.end()) continue;
            training_.roles[number] = Role::master;
            training_.parameters[number] = name->second;
        }
    }

    std::string parameter(Value key, const std::map<std::int64_t, std::string>& names) const {
        if (key.is(Kind::string)) return unwrapped(key.as_string());
        const auto name = key.is(Kind::integer) ? names.find(key.as_int()) : names.end();
        return name == names.end() ? "" : name->second;
    }

    void add_states(const Entry& state, const std::map<std::int64_t, std::string>& names) {
        const std::string name = parameter(state.key, names);
        const std::string key =
            state.key.is(Kind::string) ? std::string{state.key.as_string()} : std::to_string(state.key.as_int());
        for (const Entry& one : state.value.entries()) {
            if (!one.key.is(Kind::string)) continue;
            if (one.key.as_string() == "step") steps_.note(archive_, one.value);
            const auto number = numbers_.find(fmt::format("{}{}.{}", prefix_, key, one.key.as_string()));
            if (number == numbers_.end() || !Archive::is_tensor(one.value)) continue;
            training_.roles[number->second] = role_of_state(one.key.as_string());
            training_.parameters[number->second] = name;
            if (one.key.as_string() == "exp_avg") moments_[name] = tensors_[number->second].name;
        }
    }

    void add_settings(Value group, int number, const std::map<std::int64_t, std::string>& names) {
        if (!group.find("lr") || !group.find("betas")) return;
        const AdamSettings settings = settings_of(group);
        for (const Value key : group.at("params").items()) {
            const auto moment = moments_.find(parameter(key, names));
            if (moment == moments_.end()) continue;
            adam_.own[moment->second] = settings;
            adam_.groups[moment->second] = number;
        }
    }

    const Archive& archive_;
    std::span<const torch::NamedTensor> tensors_;
    std::span<const FlatPart> parts_;
    Value root_ = archive_.root();  // the dict with the model and its optimizer
    std::string above_;             // what precedes its keys in names: "", or "app."
    std::unordered_map<std::string, std::size_t> numbers_;
    std::vector<std::pair<std::string, std::size_t>> weights_;  // parameter names and tensor numbers
    std::vector<std::pair<std::string, std::size_t>> states_;   // names and numbers of state with DCP's names
    std::vector<Entry> optimizers_;
    Value optimizer_;
    std::map<std::int64_t, std::size_t> masters_;  // tensor numbers of master weights by parameter
    std::string prefix_;                           // of names of the optimizer's state
    std::map<std::string, std::string> moments_;   // names of exp_avg by parameter
    Adam adam_;
    Steps steps_;
    TrainingRoles training_;
};

}  // namespace

std::optional<TrainingRoles> read_training(const Archive& archive, const TrainingTensors& tensors) {
    return Reader{archive, tensors}.read();
}

std::optional<Adam> adam_of_file(const std::filesystem::path& path) {
    const Archive archive = Archive::open(path);
    auto training = read_training(archive, training_tensors(archive));
    return training ? std::move(training->adam) : std::nullopt;
}

}  // namespace tpx::formats
