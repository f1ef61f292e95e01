// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/state_tree.hpp"

#include "formats/encodings/torch/nest.hpp"
#include "formats/state/carried_state.hpp"
#include "formats/state/optimizer_groups.hpp"
#include "formats/torch/param_groups.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

namespace tpx::formats {
namespace {

using torch::Entry;
using torch::Kind;
using torch::Nest;
using torch::Value;

using Path = std::vector<Nest::Key>;

/// The parameter and the state of a tensor.
struct Place {
    std::string parameter;
    std::string state;  ///< empty: a weight
};

Place place_of(const Content& content, std::uint32_t number) {
    constexpr std::string_view megatron = "optimizer.state.";
    const std::string& name = content.tensors[number].name;
    const auto& roles = content.source == nullptr ? std::vector<Role>{} : content.source->roles;
    const Role role = content.reading == nullptr ? Role::weight : content.reading->meanings[number].role;
    const std::size_t slash = name.rfind('/');
    if (!roles.empty() && role != Role::weight && slash != name.npos)
        return {name.substr(0, slash), name.substr(slash + 1)};
    const std::size_t dot = name.find('.', megatron.size());
    if (name.starts_with(megatron) && dot != name.npos)
        return {name.substr(dot + 1), name.substr(megatron.size(), dot - megatron.size())};
    return {name, ""};
}

/// The path in planner data, a tuple of keys and indices; unset if malformed.
std::optional<Path> path_of(Value value) {
    if (!value.is(Kind::tuple) || value.items().empty()) return std::nullopt;
    Path path;
    for (const Value key : value.items()) {
        if (key.is(Kind::string))
            path.push_back({std::string{key.as_string()}, false});
        else if (key.is(Kind::integer) && key.as_int() >= 0)
            path.push_back({std::to_string(key.as_int()), true});
        else
            return std::nullopt;
    }
    return path;
}

/// Makes the parameter key of optimizer state a number if it looks like one: DCP converts all keys to text.
void count_parameters(Path& path) {
    if (path.size() < 4 || path[path.size() - 3].text != "state") return;
    Nest::Key& parameter = path[path.size() - 2];
    parameter.number = std::ranges::all_of(parameter.text, [](char c) { return c >= '0' && c <= '9'; });
}

class Maker {
public:
    Maker(const Content& content, TorchFileWriter& file) : content_{content}, file_{file} {
        if (content.source == nullptr || content.source->parameters.empty()) return;
        const auto& tensors = content.source->catalogue.tensors;
        for (std::size_t t = 0; t < tensors.size(); ++t) recorded_.emplace(tensors[t].name, t);
    }

    Value make() {
        carried_ = carried_state(content_, file_.document(), file_.contents());
        if (content_.source != nullptr && content_.source->planner_data)
            if (const auto nested = by_planner_data()) return *nested;
        return by_role();
    }

private:
    template <class Each>
    void for_each_name(Each&& each) const {
        for (const Tensor& tensor : content_.tensors) each(tensor.name);
        for (const TensorView& view : content_.views) each(view.name);
    }

    /// The tree in planner data; unset if it lacks a tensor, as after a change of names.
    std::optional<Value> by_planner_data() {
        std::unordered_map<std::string_view, Value> paths;
        for (const auto& [name, path] : content_.source->planner_data->entries())
            if (name.is(Kind::string)) paths[name.as_string()] = path;
        Nest nest;
        bool known = true;
        const auto groups = optimizer_groups(content_.source->catalogue);
        const bool numbered = std::ranges::any_of(groups, &OptimizerGroup::numbered);
        const auto put = [&](const std::string& name, Value value) {
            const auto found = paths.find(name);
            auto path = found == paths.end() ? std::nullopt : path_of(found->second);
            known &= path.has_value();
            if (numbered && path) count_parameters(*path);
            if (path) in_context([&] { return fmt::format("tensor '{}'", name); }, [&] { nest.put(*path, value); });
        };
        for_each_name([&](const std::string& name) { put(name, file_.tensor(name)); });
        for (const auto& [name, value] : carried_.objects) put(name, value);
        return known ? std::optional{nest.build(file_.document())} : std::nullopt;
    }

    /// The place of a tensor as the source records it; unset if only the name determines it.
    std::optional<Place> recorded_place(const std::string& name) const {
        const auto found = recorded_.find(name);
        if (found == recorded_.end() || content_.source->roles[found->second] == Role::extra) return std::nullopt;
        const std::string& parameter = content_.source->parameters[found->second];
        if (content_.source->roles[found->second] == Role::weight) return Place{parameter, ""};
        return parameter == name ? std::nullopt : std::optional{Place{parameter, name.substr(name.rfind('.') + 1)}};
    }

    Value by_role() {
        Nest model;
        Nest states;
        bool has_states = false;
        std::vector<std::pair<std::uint32_t, std::string>> moments;
        for (std::uint32_t t = 0; t < content_.tensors.size(); ++t) {
            const std::string& name = content_.tensors[t].name;
            const Place place = recorded_place(name).value_or(place_of(content_, t));
            const Value tensor = file_.tensor(name);
            if (place.state.empty())
                model.put(Path{{place.parameter}}, tensor);
            else
                states.put(Path{{place.parameter}, {place.state}}, tensor);
            if (place.state == "exp_avg") moments.emplace_back(t, place.parameter);
            has_states |= !place.state.empty();
        }
        name_params(moments);
        for (const TensorView& view : content_.views) model.put(Path{{view.name}}, file_.tensor(view.name));
        add_shared(model);
        const bool more = has_states || !carried_.common.empty() || !carried_.optimizer.empty();
        torch::Document& document = file_.document();
        const Value weights = model.build(document);
        if (!more && carried_.objects.empty()) return weights;
        std::vector<Entry> root{{document.string("model"), weights}};
        if (has_states || !carried_.optimizer.empty()) {
            std::vector<Entry> optimizer{{document.string("state"), states.build(document)}};
            optimizer.insert(optimizer.end(), carried_.optimizer.begin(), carried_.optimizer.end());
            root.push_back({document.string("optimizer"), document.dict(optimizer)});
        }
        root.insert(root.end(), carried_.common.begin(), carried_.common.end());
        for (const auto& [name, value] : carried_.objects) root.push_back({document.string(name), value});
        return document.dict(root);
    }

    /// Sets "param_groups" with parameter names, if the settings of each parameter are known.
    void name_params(std::span<const std::pair<std::uint32_t, std::string>> moments) {
        const auto is_groups = [](const Entry& entry) { return entry.key.as_string() == "param_groups"; };
        const auto known = std::ranges::find_if(carried_.optimizer, is_groups);
        const bool any = known != carried_.optimizer.end();
        const auto groups =
            named_param_groups(file_.document(), content_, moments, any ? std::optional{known->value} : std::nullopt);
        if (groups && any) known->value = *groups;
        if (groups && !any) carried_.optimizer.push_back({file_.document().string("param_groups"), *groups});
    }

    /// Adds names that share the tensors of other names, with the same storage.
    void add_shared(Nest& model) {
        if (content_.source == nullptr) return;
        for (const auto& [name, kept] : content_.source->shared) {
            if (!file_.has(kept) || file_.has(name)) continue;
            model.put(Path{{name}}, file_.tensor(kept));
        }
    }

    const Content& content_;
    TorchFileWriter& file_;
    CarriedState carried_;
    std::unordered_map<std::string_view, std::size_t> recorded_;  // tensors, if the source records parameters
};

}  // namespace

Value make_state_tree(const Content& content, TorchFileWriter& file) { return Maker{content, file}.make(); }

}  // namespace tpx::formats
