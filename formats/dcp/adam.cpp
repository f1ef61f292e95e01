// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/adam.hpp"

#include "formats/encodings/archive_at.hpp"
#include "formats/encodings/torch/archive.hpp"
#include "formats/state/common_optimizers.hpp"
#include "formats/state/optimizer_groups.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::formats {
namespace {

constexpr std::string_view param_groups = ".param_groups.";

/// The value of a step tensor.
std::int64_t step_in(const torch::Archive& archive) {
    const auto tensor = archive.tensor(archive.root());
    if (!tensor || tensor->dtype != DType::f32 || volume(tensor->shape) != 1)
        throw failure("the optimizer's step is not a tensor of one f32");
    const double value = scalar(archive, *tensor);
    if (!(value >= 0 && value < 1e15)) throw failure("the optimizer's step is {}", value);
    return std::llround(value);
}

/// Sets the steps of `adam` from whole numbers "ROOT.state.NUMBER.step", which DeepSpeed's FusedAdam stores.
void read_step_objects(const Catalogue& catalogue, Adam& adam) {
    bool first = true;
    for (const Object& object : catalogue.objects) {
        if (object.name.find(".state.") == object.name.npos || !object.name.ends_with(".step")) continue;
        with_archive(catalogue, object, [&](const torch::Archive& archive) {
            if (!archive.root().is(torch::Kind::integer)) return;
            const std::int64_t step = archive.root().as_int();
            if (!first && step != adam.step) adam.other_step = step;
            if (std::exchange(first, false)) adam.step = step;
        });
    }
}

/// Sets the steps of `adam` from the step tensors of a DCP checkpoint.
void read_dcp_steps(const Source& source, Adam& adam) {
    const Catalogue& catalogue = source.checkpoint.catalogue;
    bool first = true;
    for (std::size_t p = 0; p < catalogue.pieces.size(); ++p) {
        const Piece& piece = catalogue.pieces[p];
        const std::string& name = catalogue.tensors[piece.tensor].name;
        const bool is_step = source.reading.meanings[piece.tensor].role == Role::step ||
                             (name.find(".state.") != name.npos && name.ends_with(".step"));
        if (!is_step || source.checkpoint.archives.empty()) continue;
        with_archive(catalogue, piece.file, piece.offset, source.checkpoint.archives[p],
                     [&](const torch::Archive& archive) {
                         const std::int64_t step = step_in(archive);
                         if (!first && step != adam.step) adam.other_step = step;
                         if (std::exchange(first, false)) adam.step = step;
                     });
        if (adam.other_step) return;
    }
    if (first) read_step_objects(catalogue, adam);
}

/// The param_groups entries of a DCP checkpoint: objects, and tensors for optimizers whose learning rate is a tensor.
std::vector<Object> entries_of_groups(const Checkpoint& checkpoint) {
    const Catalogue& catalogue = checkpoint.catalogue;
    std::vector<Object> entries = catalogue.objects;
    for (std::size_t p = 0; p < checkpoint.archives.size(); ++p) {
        const Piece& piece = catalogue.pieces[p];
        entries.push_back({.name = catalogue.tensors[piece.tensor].name,
                           .file = piece.file,
                           .offset = piece.offset,
                           .length = checkpoint.archives[p]});
    }
    std::erase_if(entries, [](const Object& entry) { return entry.name.find(param_groups) == entry.name.npos; });
    return entries;
}

bool is_setting(std::string_view key) {
    constexpr std::array<std::string_view, 5> keys{"lr", "initial_lr", "betas", "eps", "weight_decay"};
    return std::ranges::find(keys, key) != keys.end();
}

/// The settings in Megatron's groups in a DCP checkpoint converted from its common state, or of each parameter in one
/// of Megatron-FSDP: "optimizer.param_groups.0.wd_mult", "optimizer.param_to_group_meta.NAME.wd_mult".
std::optional<Adam> of_megatron_objects(const Catalogue& catalogue) {
    constexpr std::array<std::string_view, 2> roots{"optimizer.param_groups.", "optimizer.param_to_group_meta."};
    std::map<std::string, MegatronGroup> groups;
    bool megatron = false;
    for (const Object& object : catalogue.objects) {
        const std::size_t dot = object.name.rfind('.');
        const auto* const root =
            std::ranges::find_if(roots, [&](std::string_view start) { return object.name.starts_with(start); });
        if (root == roots.end() || dot < root->size()) continue;
        const std::string key = object.name.substr(dot + 1);
        MegatronGroup& group = groups[object.name.substr(root->size(), dot - root->size())];
        megatron |= key == "wd_mult";
        if (is_setting(key) || key == "wd_mult" || key == "max_lr" || key == "step")
            with_archive(catalogue, object, [&](const torch::Archive& archive) { group.read(key, archive.root()); });
    }
    if (!megatron) return std::nullopt;
    std::vector<MegatronGroup> list;
    for (const auto& [number, group] : groups) list.push_back(group);
    return adam_of_groups(list);
}

/// The first moments of `param`: "ROOT.state.PARAM.exp_avg", or the parts of that vector.
std::vector<std::string> moments_of(const std::string& root, const std::string& param,
                                    const std::set<std::string_view>& names) {
    const std::string moment = fmt::format("{}.state.{}.exp_avg", root, param);
    const std::string prefix = moment + ".";
    std::vector<std::string> parts;
    if (!names.contains(moment))
        for (auto part = names.lower_bound(prefix); part != names.end() && part->starts_with(prefix); ++part)
            parts.emplace_back(*part);
    return parts.empty() ? std::vector{moment} : parts;
}

}  // namespace

std::optional<Adam> adam_of_objects(const Source& source) {
    const Catalogue& catalogue = source.checkpoint.catalogue;
    Adam adam;
    std::map<std::string, AdamSettings> of_groups;
    const std::vector<OptimizerGroup> known = optimizer_groups(catalogue);
    if (known.empty())
        if (auto megatron = of_megatron_objects(catalogue)) return megatron;
    for (const OptimizerGroup& group : known) of_groups[group.prefix];
    for (const Object& object : entries_of_groups(source.checkpoint)) {
        const std::size_t dot = object.name.rfind('.');
        const std::size_t at = object.name.find(param_groups);
        if (dot < at + param_groups.size()) continue;
        const std::string key = object.name.substr(dot + 1);
        if (!is_setting(key)) continue;
        const std::string parameter = object.name.substr(at + param_groups.size(), dot - at - param_groups.size());
        const auto group = of_groups.find(object.name.substr(0, dot + 1));
        AdamSettings& settings =
            group != of_groups.end()
                ? group->second
                : adam.own[fmt::format("{}.state.{}.exp_avg", std::string_view{object.name}.substr(0, at), parameter)];
        with_archive(catalogue, object,
                     [&](const torch::Archive& archive) { set(settings, key, archive.root(), &archive); });
    }
    std::set<std::string_view> names;
    for (const Tensor& tensor : catalogue.tensors) names.insert(tensor.name);
    for (std::size_t g = 0; g < known.size(); ++g) {
        for (const std::string& param : known[g].params) {
            for (const std::string& moment : moments_of(known[g].root, param, names)) {
                adam.own[moment] = of_groups.at(known[g].prefix);
                adam.groups[moment] = static_cast<int>(g);
            }
        }
    }
    if (adam.own.empty()) return std::nullopt;
    read_dcp_steps(source, adam);
    return adam;
}

}  // namespace tpx::formats
