// SPDX-License-Identifier: Apache-2.0
#include "formats/state/adam.hpp"

#include "formats/driver.hpp"
#include "formats/encodings/torch/archive.hpp"
#include "formats/source.hpp"
#include "formats/state/common_optimizers.hpp"
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

std::optional<Adam> of_common(Value common) {
    const auto states = optimizers_of(common);
    if (states.empty()) return std::nullopt;
    std::vector<MegatronGroup> groups;
    for (const Value group : states[0].groups) {
        MegatronGroup& read = groups.emplace_back();
        for (const torch::Entry& entry : group.entries())
            if (entry.key.is(Kind::string)) read.read(entry.key.as_string(), entry.value);
    }
    return adam_of_groups(groups);
}

void default_initial(AdamSettings& settings) {
    if (settings.initial_lr == 0) settings.initial_lr = settings.lr;
}

/// Sets `matrices` and `vectors` from the first matrix and vector. Clears `own` if all parameters agree with them.
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
        const bool all_agree = std::ranges::all_of(adam.own, [&](const auto& entry) {
            const auto found = axes.find(entry.first);
            return entry.second == (found != axes.end() && found->second < 2 ? adam.vectors : adam.matrices);
        });
        if (all_agree) adam.own.clear();
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
    const bool by_name = checkpoint.format->values == ValueStorage::objects &&
                         !(checkpoint.common && checkpoint.common->find("optimizer"));
    if (checkpoint.common && !by_name)
        adam = of_common(*checkpoint.common);
    else if (checkpoint.format->adam != nullptr)
        adam = checkpoint.format->adam(source);
    if (adam) settle(*adam, source);
    return adam;
}

}  // namespace tpx::formats
