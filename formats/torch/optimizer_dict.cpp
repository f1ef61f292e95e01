// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/optimizer_dict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace tpx::formats {
namespace {

using torch::Kind;
using torch::Value;

/// FP16_UnfusedOptimizer stores the state_dict() of its optimizer here, ...
constexpr std::string_view wrapped_key = "optimizer_state_dict";
/// ... and a list of master weights for each of its param_groups here. FP16_Optimizer stores one vector for each
/// instead, under flat_masters_key.
constexpr std::string_view masters_key = "fp32_groups";

bool is_state_dict(Value value) {
    if (!value.is(Kind::dict)) return false;
    const auto state = value.find("state"), groups = value.find("param_groups");
    return state && state->is(Kind::dict) && groups && groups->is(Kind::list);
}

bool wraps_optimizer(Value value, std::string_view key = masters_key) {
    if (!value.is(Kind::dict)) return false;
    const auto wrapped = value.find(wrapped_key), masters = value.find(key);
    return wrapped && is_state_dict(*wrapped) && masters && masters->is(Kind::list);
}

}  // namespace

Value state_dict_in(Value value) {
    if (wraps_optimizer(value) || wraps_optimizer(value, flat_masters_key)) return value.at(wrapped_key);
    if (value.is(Kind::list) && value.items().size() == 1) value = value.items()[0];
    return is_state_dict(value) ? value : Value{};
}

std::string path_of_state_dict(Value value) {
    if (wraps_optimizer(value) || wraps_optimizer(value, flat_masters_key)) return fmt::format(".{}", wrapped_key);
    return value.is(Kind::list) ? ".0" : "";
}

std::map<std::int64_t, std::string> paths_of_masters(Value value) {
    std::map<std::int64_t, std::string> paths;
    if (!wraps_optimizer(value)) return paths;
    const auto groups = value.at(wrapped_key).at("param_groups").items();
    const auto lists = value.at(masters_key).items();
    for (std::size_t g = 0; g < std::min(groups.size(), lists.size()); ++g) {
        const auto params = groups[g].is(Kind::dict) ? groups[g].find("params") : std::nullopt;
        if (!params || !params->is(Kind::list) || !lists[g].is(Kind::list)) continue;
        const auto numbers = params->items();
        for (std::size_t k = 0; k < std::min(numbers.size(), lists[g].items().size()); ++k)
            if (numbers[k].is(Kind::integer))
                paths.emplace(numbers[k].as_int(), fmt::format(".{}.{}.{}", masters_key, g, k));
    }
    return paths;
}

std::vector<Value> flat_masters_in(Value value) {
    if (!wraps_optimizer(value, flat_masters_key)) return {};
    const auto vectors = value.at(flat_masters_key).items();
    return {vectors.begin(), vectors.end()};
}

}  // namespace tpx::formats
