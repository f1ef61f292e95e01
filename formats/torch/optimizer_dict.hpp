// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace tpx::formats {

/// The state_dict() of an optimizer in `value`, an entry of a training script's file: `value` itself, the only item of
/// a list, or the optimizer that DeepSpeed's FP16_UnfusedOptimizer wraps. Null if there is none.
torch::Value state_dict_in(torch::Value value);

/// The path from `value` to state_dict_in(value), such as ".0"; empty if it is `value` itself.
std::string path_of_state_dict(torch::Value value);

/// The paths from `value` to the master weights that FP16_UnfusedOptimizer stores, such as ".fp32_groups.0.1", by the
/// parameter's number. Empty if `value` is the state of another optimizer.
std::map<std::int64_t, std::string> paths_of_masters(torch::Value value);

}  // namespace tpx::formats
