// SPDX-License-Identifier: Apache-2.0
#include "formats/state/roles.hpp"

#include "formats/driver.hpp"
#include "formats/state/named_roles.hpp"
#include "lib/layout/virtual_nodes.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace tpx::formats {

std::string_view parameter_of(std::string_view name) { return name.substr(0, name.rfind('/')); }

std::string_view parameter_of(const Checkpoint& checkpoint, std::size_t t) {
    if (!checkpoint.parameters.empty()) return checkpoint.parameters[t];
    const std::string& name = checkpoint.catalogue.tensors[t].name;
    return checkpoint.roles[t] == Role::weight ? std::string_view{name} : parameter_of(name);
}

namespace {

/// The tensors that are weights, or state of a weight other than its step.
std::vector<std::uint32_t> readable(const Checkpoint& checkpoint) {
    const std::vector<Role>& roles = checkpoint.roles;
    std::unordered_set<std::string_view> weights;
    for (std::uint32_t t = 0; t < roles.size(); ++t)
        if (roles[t] == Role::weight) weights.insert(parameter_of(checkpoint, t));
    // Unless parameters' names are recorded, a master may take the place of a missing weight. A file with no weight at
    // all contains the state of an optimizer alone.
    const bool all = checkpoint.parameters.empty() || weights.empty();
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t t = 0; t < roles.size(); ++t) {
        const bool parameter = roles[t] != Role::extra && roles[t] != Role::step;
        if (parameter && (all || weights.contains(parameter_of(checkpoint, t)))) numbers.push_back(t);
    }
    return numbers;
}

/// Extends the meanings of the tensors `numbers` to all tensors of a checkpoint: a step has the meaning of its
/// parameter, extras are not parameters, and all others are unknown.
void spread(const Checkpoint& checkpoint, std::span<const std::uint32_t> numbers, Reading& reading) {
    const std::vector<Role>& roles = checkpoint.roles;
    std::vector<Meaning> meanings(roles.size());
    std::unordered_map<std::string_view, Meaning> parameters;
    for (std::size_t k = 0; k < numbers.size(); ++k) {
        const std::uint32_t t = numbers[k];
        meanings[t] = reading.meanings[k];
        if (meanings[t].kind != Meaning::Kind::extra) meanings[t].role = roles[t];
        parameters.emplace(parameter_of(checkpoint, t), meanings[t]);
    }
    const std::unordered_set<std::uint32_t> read{numbers.begin(), numbers.end()};
    reading.unknown.clear();
    for (std::uint32_t t = 0; t < roles.size(); ++t) {
        const auto parameter = parameters.find(parameter_of(checkpoint, t));
        if (roles[t] == Role::step && parameter != parameters.end()) meanings[t] = parameter->second;
        if (roles[t] == Role::extra) meanings[t].kind = Meaning::Kind::extra;
        if (const auto node = virtual_node_of(checkpoint.catalogue.tensors[t].name); node && roles[t] == Role::extra)
            meanings[t].virtual_node = *node;
        if (!read.contains(t) && roles[t] != Role::extra) meanings[t].role = roles[t];
        if (meanings[t].kind == Meaning::Kind::unknown) reading.unknown.push_back(t);
    }
    reading.meanings = std::move(meanings);
}

/// A prefix such as "model." (of "model.layers.0.weight") if the names of all weights begin with it; otherwise empty.
std::string common_attribute(const Checkpoint& checkpoint) {
    std::optional<std::string_view> common;
    for (std::uint32_t t = 0; t < checkpoint.roles.size(); ++t) {
        if (checkpoint.roles[t] != Role::weight) continue;
        const std::string_view name = parameter_of(checkpoint, t);
        const std::string_view attribute = name.substr(0, name.find('.') + 1);
        if (attribute.empty() || attribute.size() == name.size() || attribute != common.value_or(attribute)) return {};
        common = attribute;
    }
    return std::string{common.value_or("")};
}

bool weights_are_read(const Checkpoint& checkpoint, const Reading& reading) {
    for (std::uint32_t t = 0; t < checkpoint.roles.size(); ++t)
        if (checkpoint.roles[t] == Role::weight && reading.meanings[t].kind == Meaning::Kind::unknown) return false;
    return reading.family != nullptr;
}

}  // namespace

Reading read_by_roles(const Checkpoint& checkpoint, const Families& families, const Config& config) {
    const std::vector<Tensor>& stored = checkpoint.catalogue.tensors;
    if (checkpoint.roles.empty()) return read(stored, families, config);
    const std::vector<std::uint32_t> numbers = readable(checkpoint);
    std::vector<Tensor> parameters;
    for (const std::uint32_t t : numbers) {
        parameters.push_back(stored[t]);
        parameters.back().name = parameter_of(checkpoint, t);
    }
    Reading reading = read(parameters, families, config);
    spread(checkpoint, numbers, reading);
    return reading;
}

namespace {

/// A parameter's name without what torch.compile, FSDP and activation checkpointing insert at any depth.
std::string without_wrappers(std::string name) {
    for (const std::string_view wrapper : {"_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."})
        for (std::size_t at = name.find(wrapper); at != name.npos; at = name.find(wrapper, at)) {
            const bool word = at == 0 || name[at - 1] == '.';
            if (word)
                name.erase(at, wrapper.size());
            else
                ++at;
        }
    return name;
}

/// Removes wrappers from the parameters' names unless two weights would have the same name; returns whether names
/// changed.
bool remove_wrappers(Checkpoint& checkpoint) {
    std::vector<std::string> names;
    std::unordered_set<std::string_view> weights;
    for (const std::string& name : checkpoint.parameters) names.push_back(without_wrappers(name));
    if (names == checkpoint.parameters) return false;
    for (std::size_t t = 0; t < names.size(); ++t)
        if (checkpoint.roles[t] == Role::weight && !weights.insert(names[t]).second) return false;
    checkpoint.parameters = std::move(names);
    return true;
}

/// Tries the names without wrappers and attributes, see read_by_names(); unset if rules do not match every weight then.
std::optional<Reading> read_below_attributes(Checkpoint& checkpoint, const Families& families, const Config& config) {
    // Each attempt reads all names again. No wrapped model has so many tensors that this takes a second.
    constexpr std::size_t most_tensors = 100'000;
    if (!checkpoint.format->may_wrap_names || checkpoint.catalogue.tensors.size() > most_tensors) return std::nullopt;
    constexpr int most = 3;  // a model in a LightningModule under DDP, compiled
    const auto roles = checkpoint.roles;
    const auto parameters = checkpoint.parameters;
    const std::vector<Tensor>& tensors = checkpoint.catalogue.tensors;
    if (roles.empty()) checkpoint.roles.assign(tensors.size(), Role::weight);
    if (parameters.empty())
        for (const Tensor& tensor : tensors) checkpoint.parameters.push_back(tensor.name);
    const auto read_anew = [&]() -> std::optional<Reading> {
        Reading reading = read_by_roles(checkpoint, families, config);
        return weights_are_read(checkpoint, reading) ? std::optional{std::move(reading)} : std::nullopt;
    };
    if (remove_wrappers(checkpoint))
        if (auto reading = read_anew()) return reading;
    for (int k = 0; k < most; ++k) {
        const std::string attribute = common_attribute(checkpoint);
        if (attribute.empty()) break;
        for (std::uint32_t t = 0; t < tensors.size(); ++t)
            if (checkpoint.roles[t] != Role::extra && checkpoint.parameters[t].starts_with(attribute))
                checkpoint.parameters[t].erase(0, attribute.size());
        if (auto reading = read_anew()) return reading;
    }
    checkpoint.roles = roles;
    checkpoint.parameters = parameters;
    return std::nullopt;
}

}  // namespace

Reading read_by_names(Checkpoint& checkpoint, const Families& families, const Config& config) {
    // bitsandbytes stores packed 4-bit weights under their usual names, with shapes that no configuration explains.
    const auto packed = std::ranges::find_if(checkpoint.catalogue.tensors, [](const Tensor& tensor) {
        return tensor.name.find(".weight.quant_state.") != tensor.name.npos;
    });
    const bool is_packed = packed != checkpoint.catalogue.tensors.end();
    const Families known = is_packed ? Families{} : families;
    Reading reading = read_by_roles(checkpoint, known, config);
    if (!reading.family && assign_named_roles(checkpoint)) {
        reading = read_by_roles(checkpoint, known, config);
        for (std::size_t t = 0; t < checkpoint.roles.size(); ++t)
            if (reading.meanings[t].kind == Meaning::Kind::extra) checkpoint.roles[t] = Role::extra;
    }
    if (reading.family && reading.unknown.empty()) return reading;
    auto below = read_below_attributes(checkpoint, known, config);
    return below ? *std::move(below) : std::move(reading);
}

std::set<std::string_view> parameters_with(const Checkpoint& checkpoint, Role role) {
    std::set<std::string_view> parameters;
    for (std::size_t t = 0; t < checkpoint.roles.size(); ++t)
        if (checkpoint.roles[t] == role) parameters.insert(parameter_of(checkpoint, t));
    return parameters;
}

}  // namespace tpx::formats
