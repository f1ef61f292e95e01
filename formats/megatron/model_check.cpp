// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/model_check.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/framework_limits.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace tpx::formats::megatron {
namespace {

/// "'A', 'B' and 3 more", each name once.
std::string listed(const std::vector<PlacedTensor>& tensors) {
    constexpr std::size_t most = 5;
    std::vector<std::string> names;
    for (const PlacedTensor& tensor : tensors)
        if (std::ranges::find(names, tensor.stored) == names.end()) names.push_back(tensor.stored);
    std::string text;
    for (std::size_t k = 0; k < std::min(names.size(), most); ++k)
        text += fmt::format("{}'{}'", k == 0 ? "" : ", ", names[k]);
    return names.size() > most ? fmt::format("{} and {} more", text, names.size() - most) : text;
}

}  // namespace

ParameterDifference model_difference(const ExpressedState& expressed, const Config& config) {
    Config args;
    for (const ConfigSetting& setting : configuration_for(expressed, "mcore", config))
        args[setting.key] = setting.value;
    return args.empty() ? ParameterDifference{} : parameter_difference(expressed, args);
}

void check_model(const ExpressedState& expressed, const Config& config) {
    check_framework_limits(expressed, "mcore", config);
    const auto& [missing, unexpected] = model_difference(expressed, config);
    if (!unexpected.empty()) throw failure("Megatron's model has no place for {}", listed(unexpected));
    if (missing.empty()) return;
    const bool biases =
        std::ranges::all_of(missing, [](const PlacedTensor& one) { return one.stored.ends_with(".bias"); });
    if (biases)
        throw failure(
            "Megatron has biases in all linear layers, in those of queries, keys and values alone, or in none, and the "
            "model lacks {}; --allow-missing adds biases of zeros, which compute the same",
            listed(missing));
    throw failure("Megatron's model needs {}, which the source lacks", listed(missing));
}

}  // namespace tpx::formats::megatron
