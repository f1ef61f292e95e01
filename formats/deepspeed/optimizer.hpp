// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/builder.hpp"
#include "formats/deepspeed/grid.hpp"

#include <string>
#include <string_view>

namespace tpx::formats::deepspeed {

/// Adds the master weights and the optimizer state of all parameters, from the partitions of all ranks, as tensors
/// NAME/fp32, NAME/exp_avg, and so on. Throws Error "FILE: ..." when a file is missing, or when lengths, paddings or
/// maps are not what the parameters' shapes make them.
void add_optimizer(Grid& grid, Builder& builder);

/// Part of the names of experts' parameters, before the number of the expert.
constexpr std::string_view expert_marker = ".deepspeed_experts.";

/// `name` of a parameter of expert rank `expert_rank` with the number that its expert has among all, of which each rank
/// has `experts`.
std::string global_expert_name(const std::string& name, Index expert_rank, Index experts);

/// How many experts of the layer of parameter `name` a rank has, judged by the names in `group`; 0 for other
/// parameters.
Index local_experts(const Group& group, const std::string& name);

}  // namespace tpx::formats::deepspeed
