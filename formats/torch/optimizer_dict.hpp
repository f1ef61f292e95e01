// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// The key under which DeepSpeed's FP16_Optimizer stores the master weights of each param_group as one vector.
inline constexpr std::string_view flat_masters_key = "fp32_groups_flat";

/// The state_dict() of an optimizer in `value`, an entry of a training script's file: `value` itself, the only item of
/// a list, or the optimizer that DeepSpeed's FP16_UnfusedOptimizer or FP16_Optimizer wraps. Null if there is none.
torch::Value state_dict_in(torch::Value value);

/// The path from `value` to state_dict_in(value), such as ".0"; empty if it is `value` itself.
std::string path_of_state_dict(torch::Value value);

/// The paths from `value` to the master weights that FP16_UnfusedOptimizer stores, such as ".fp32_groups.0.1", by the
/// parameter's number. Empty if `value` is the state of another optimizer.
std::map<std::int64_t, std::string> paths_of_masters(torch::Value value);

/// The vectors of master weights that FP16_Optimizer stores, one for each param_group. Empty if `value` is the state of
/// another optimizer.
std::vector<torch::Value> flat_masters_in(torch::Value value);

}  // namespace tpx::formats
