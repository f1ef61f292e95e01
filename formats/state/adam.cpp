// SPDX-License-Identifier: Apache-2.0
#include "formats/state/adam.hpp"

#include "formats/dcp/optimizer_groups.hpp"
#include "formats/deepspeed/adam.hpp"
#include "formats/driver.hpp"
#include "formats/encodings/archive_at.hpp"
#include "formats/encodings/torch/archive.hpp"
#include "formats/megatron/rank_state.hpp"
#include "formats/source.hpp"
#include "formats/state/roles.hpp"
#include "formats/torch/training.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

namespace tpx::formats {
namespace {

using torch::Kind;
using torch::Value;

constexpr std::string_view param_groups = ".param_groups.";

/// One of Megatron's groups of parameters, which do not name them.
struct MegatronGroup {
    AdamSettings settings;
    double wd_mult = 1;
    std::int64_t step = 0;

    void read(std::string_view key, Value value) {
        set(settings, key, value, nullptr);
        if (key == "wd_mult") wd_mult = value.as_real();
        if (key == "step" && value.is(Kind::integer)) step = value.as_int();
    }
};

/// The groups with weight decay speak for matrices, those without for vectors.
Adam of_megatron(std::span<const MegatronGroup> groups) {
    Adam adam;
    std::array<bool, 2> seen{};
    for (const MegatronGroup& group : groups) {
        const bool decays = group.wd_mult != 0;
        (decays ? adam.matrices : adam.vectors) = group.settings;
        seen[decays ? 0 : 1] = true;
        adam.step = std::max(adam.step, group.step);  // a group may lack it
    }
    if (!seen[0]) adam.matrices = adam.vectors;
    if (!seen[1]) adam.vectors = adam.matrices;
    adam.vectors.weight_decay = 0;
    return adam;
}

std::optional<Adam> of_common(Value common) {
    const auto states = megatron::optimizers_of(common);
    if (states.empty()) return std::nullopt;
    std::vector<MegatronGroup> groups;
    for (const Value group : states[0].groups) {
        MegatronGroup& read = groups.emplace_back();
        for (const torch::Entry& entry : group.entries())
            if (entry.key.is(Kind::string)) read.read(entry.key.as_string(), entry.value);
    }
    return of_megatron(groups);
}

/// The number that a step's tensor holds.
std::int64_t step_in(const torch::Archive& archive) {
    const auto tensor = archive.tensor(archive.root());
    if (!tensor || tensor->dtype != DType::f32 || volume(tensor->shape) != 1)
        throw failure("the optimizer's step is not a tensor of one f32");
    const double value = scalar(archive, *tensor);
    if (!(value >= 0 && value < 1e15)) throw failure("the optimizer's step is {}", value);
    return std::llround(value);
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
}

/// The entries of groups that DCP keeps: objects, and tensors of optimizers whose learning rate is one.
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

/// Megatron's groups, as DCP has them that was made of its common state: "optimizer.param_groups.0.wd_mult".
std::optional<Adam> of_megatron_objects(const Catalogue& catalogue) {
    constexpr std::string_view root = "optimizer.param_groups.";
    std::map<std::string, MegatronGroup> groups;
    bool megatron = false;
    for (const Object& object : catalogue.objects) {
        const std::size_t dot = object.name.rfind('.');
        if (!object.name.starts_with(root) || dot < root.size()) continue;
        const std::string key = object.name.substr(dot + 1);
        MegatronGroup& group = groups[object.name.substr(root.size(), dot - root.size())];
        megatron |= key == "wd_mult";
        if (is_setting(key) || key == "wd_mult" || key == "max_lr" || key == "step")
            with_archive(catalogue, object, [&](const torch::Archive& archive) { group.read(key, archive.root()); });
    }
    if (!megatron) return std::nullopt;
    std::vector<MegatronGroup> list;
    for (const auto& [number, group] : groups) list.push_back(group);
    return of_megatron(list);
}

/// DCP keeps an object for each setting: of a group, "optim.param_groups.0.lr", or in the flattened form of each
/// parameter, "optimizer.param_groups.PARAMETER.lr".
std::optional<Adam> of_objects(const Source& source) {
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
    for (const OptimizerGroup& group : known)
        for (const std::string& param : group.params)
            adam.own[fmt::format("{}.state.{}.exp_avg", group.root, param)] = of_groups.at(group.prefix);
    if (adam.own.empty()) return std::nullopt;
    read_dcp_steps(source, adam);
    return adam;
}

void default_initial(AdamSettings& settings) {
    if (settings.initial_lr == 0) settings.initial_lr = settings.lr;
}

/// What most say: the settings of the first matrix, and of the first vector. Names go where these tell all.
void settle(Adam& adam, const Source& source) {
    if (!adam.own.empty()) {
        std::array<const AdamSettings*, 2> first{};
        std::map<std::string_view, int> axes;
        const std::vector<Tensor>& tensors = source.checkpoint.catalogue.tensors;
        for (std::size_t t = 0; t < tensors.size(); ++t)
            if (adam.own.contains(tensors[t].name)) axes.emplace(tensors[t].name, own_axes(source.reading, tensors, t));
        for (const auto& [name, settings] : adam.own) {
            const auto found = axes.find(name);
            const AdamSettings*& known = first[found != axes.end() && found->second < 2 ? 1 : 0];
            if (known == nullptr) known = &settings;
        }
        adam.matrices = *(first[0] != nullptr ? first[0] : first[1]);
        adam.vectors = *(first[1] != nullptr ? first[1] : first[0]);
        const bool told = std::ranges::all_of(adam.own, [&](const auto& entry) {
            const auto found = axes.find(entry.first);
            return entry.second == (found != axes.end() && found->second < 2 ? adam.vectors : adam.matrices);
        });
        if (told) adam.own.clear();
    }
    default_initial(adam.matrices);
    default_initial(adam.vectors);
    for (auto& [name, settings] : adam.own) default_initial(settings);
}

}  // namespace

int own_axes(const Reading& reading, std::span<const Tensor> tensors, std::size_t t) {
    const int axes = tensors[t].shape.size();
    const Meaning& meaning = reading.meanings[t];
    if (reading.family == nullptr || meaning.kind != Meaning::Kind::parameter) return axes;
    return axes - (is_axis(*reading.family, meaning, 'l') ? 1 : 0) - (is_axis(*reading.family, meaning, 'e') ? 1 : 0);
}

const AdamSettings& Adam::of(std::string_view moment, int axes) const {
    const auto found = own.find(moment);
    return found != own.end() ? found->second : axes > 1 ? matrices : vectors;
}

double scalar(const torch::Archive& archive, const torch::StoredTensor& tensor) {
    if (volume(tensor.shape) != 1 || (tensor.dtype != DType::f32 && tensor.dtype != DType::f64))
        throw failure("a tensor of {} {}, not of one f32 or f64", volume(tensor.shape), name(tensor.dtype));
    const std::string bytes = archive.elements(tensor);
    double wide = 0;
    float narrow = 0;
    if (tensor.dtype == DType::f64) std::memcpy(&wide, bytes.data(), sizeof wide);
    if (tensor.dtype == DType::f32) std::memcpy(&narrow, bytes.data(), sizeof narrow);
    return tensor.dtype == DType::f64 ? wide : narrow;
}

void set(AdamSettings& settings, std::string_view key, Value value, const torch::Archive* archive) {
    const auto real = [&](Value given) {
        const auto tensor = archive != nullptr ? archive->tensor(given) : std::nullopt;
        return tensor ? scalar(*archive, *tensor) : given.as_real();
    };
    if (key == "lr") settings.lr = real(value);
    if (key == "initial_lr" || key == "max_lr") settings.initial_lr = value.is_none() ? 0 : real(value);
    if (key == "eps") settings.eps = real(value);
    if (key == "weight_decay") settings.weight_decay = real(value);
    if (key != "betas") return;
    const auto betas = value.items();
    if (betas.size() != 2) throw failure("param_groups: betas of {} values", betas.size());
    settings.beta1 = real(betas[0]);
    settings.beta2 = real(betas[1]);
}

std::optional<Adam> adam_of(Source& source) {
    const Checkpoint& checkpoint = source.checkpoint;
    std::optional<Adam> adam;
    const bool by_name =
        checkpoint.format->values == ValuesIn::objects && !(checkpoint.common && checkpoint.common->find("optimizer"));
    if (by_name)
        adam = of_objects(source);
    else if (checkpoint.common)
        adam = of_common(*checkpoint.common);
    else if (checkpoint.format->values == ValuesIn::engine_files)
        adam = deepspeed::adam_of_step(checkpoint.catalogue.directory);
    else if (checkpoint.format->values == ValuesIn::one_file)
        adam = adam_of_file(checkpoint.catalogue.path(0));
    if (adam) settle(*adam, source);
    return adam;
}

}  // namespace tpx::formats
