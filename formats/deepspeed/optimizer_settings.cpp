// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/optimizer_settings.hpp"

#include <fmt/format.h>

#include <string>

namespace tpx::formats::deepspeed {
namespace {

using torch::Kind;
using torch::Value;

/// Ranks must have the same kinds of state and the same step; tensors and other numbers may differ.
void compare_states(RankSettings& settings, const std::filesystem::path& path, const std::string& name, Value states) {
    if (!states.is(Kind::dict)) return;
    settings.add_keys(path, name, states);
    if (const auto step = states.find("step")) settings.add(path, name + ".step", *step);
}

/// `inner` is the dict of a torch optimizer or, in elastic checkpoints, a list with the states of each group.
void compare_inner(RankSettings& settings, const std::filesystem::path& path, const std::string& name, Value inner) {
    if (inner.is(Kind::list)) {
        for (std::size_t g = 0; g < inner.items().size(); ++g)
            compare_states(settings, path, fmt::format("{}[{}]", name, g), inner.items()[g]);
    }
    if (!inner.is(Kind::dict)) return;
    settings.add_keys(path, name, inner);
    settings.add(path, name + ".param_groups", inner.find("param_groups"));
    const auto state = inner.find("state");
    if (!state || !state->is(Kind::dict)) return;
    settings.add_keys(path, name + ".state", *state);
    for (const auto& [key, states] : state->entries())
        if (key.is(Kind::integer))
            compare_states(settings, path, fmt::format("{}.state.{}", name, key.as_int()), states);
}

}  // namespace

void compare_optimizer_settings(RankSettings& settings, const std::filesystem::path& path, Value root, int mp) {
    const Value optimizer = root.at("optimizer_state_dict");
    settings.add(path, "ds_version", root.find("ds_version"));
    settings.add_keys(path, "optimizer_state_dict", optimizer);
    for (const char* key : {"zero_stage", "dynamic_loss_scale", "overflow", "clip_grad"})
        settings.add(path, key, optimizer.find(key));
    if (const auto scaler = optimizer.find("loss_scaler"); scaler && scaler->is(Kind::object))
        settings.add(path, "loss_scaler", scaler->as_object().state);
    for (const char* key : {"base_optimizer_state", "optimizer_state_dict"}) {
        if (const auto inner = optimizer.find(key))
            compare_inner(settings, path, fmt::format("{} of model-parallel rank {}", key, mp), *inner);
    }
}

}  // namespace tpx::formats::deepspeed
