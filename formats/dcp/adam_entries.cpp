// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/adam_entries.hpp"

#include "formats/encodings/torch/archive_writer.hpp"
#include "formats/encodings/torch/tensor_value.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace tpx::formats {
namespace {

using torch::Document;
using torch::Value;

std::string with_star(const std::string& pattern, const std::string& name) {
    return std::string{pattern}.replace(pattern.find('*'), 1, name);
}

/// The torch.save archive of a scalar tensor.
std::string scalar_archive(float value) {
    Document document;
    std::string bytes(sizeof value, '\0');
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(bytes.data(), &value, sizeof value);
    const Value tensor = torch::make_tensor(document, DType::f32, {}, "0");
    const torch::ArchiveFrame frame = torch::frame_archive(tensor, {}, {{"0", bytes}});
    std::string archive;
    for (const std::string& run : frame.runs) archive += run;
    return archive;
}

/// The settings of a parameter's group, pickled.
std::vector<std::pair<std::string, std::string>> settings(const AdamSettings& adam) {
    Document document;
    const std::array betas{document.real(adam.beta1), document.real(adam.beta2)};
    std::vector<std::pair<std::string, std::string>> pickled;
    const auto add = [&](const char* key, Value value) { pickled.emplace_back(key, torch::write_archive(value)); };
    add("lr", document.real(adam.lr));
    add("betas", document.tuple(betas));
    add("eps", document.real(adam.eps));
    add("weight_decay", document.real(adam.weight_decay));
    for (const char* key : {"amsgrad", "maximize", "capturable", "differentiable"}) add(key, Value::boolean(false));
    for (const char* key : {"foreach", "fused"}) add(key, Value{});
    add("decoupled_weight_decay", Value::boolean(true));
    add("initial_lr", document.real(adam.initial_lr));
    return pickled;
}

}  // namespace

std::vector<KnownEntry> adam_entries(const Content& content) {
    std::vector<KnownEntry> entries;
    if (!content.adam) return entries;
    const Reading& reading = *content.reading;
    const bool own = reading.dialect != nullptr && !reading.dialect->roles.empty();
    const std::span<const RolePattern> roles = own ? std::span{reading.dialect->roles} : torch_roles();
    const auto pattern_of = [&](Role role) { return std::ranges::find(roles, role, &RolePattern::role)->pattern; };
    const std::string moments = pattern_of(Role::exp_avg);
    const std::string step = pattern_of(Role::step);
    const std::string groups = moments.substr(0, moments.find(".state.")) + ".param_groups.";
    const std::string counted = scalar_archive(static_cast<float>(content.adam->step));
    for (std::size_t t = 0; t < content.tensors.size(); ++t) {
        if (reading.meanings[t].role != Role::exp_avg) continue;
        const std::string& name = content.tensors[t].name;
        const std::size_t star = moments.find('*');
        const std::string parameter = name.substr(star, name.size() + 1 - moments.size());
        entries.push_back({with_star(step, parameter), counted, true});
        for (const auto& [key, archive] : settings(content.adam->of(name, content.tensors[t].shape.size())))
            entries.push_back({groups + parameter + "." + key, archive, false});
    }
    return entries;
}

}  // namespace tpx::formats
