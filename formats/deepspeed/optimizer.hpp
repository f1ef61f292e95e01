// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/catalogue_builder.hpp"
#include "formats/deepspeed/writer_grid.hpp"

#include <string>
#include <string_view>

namespace tpx::formats::deepspeed {

/// Adds the master weights and the optimizer state of all parameters, from the partitions of all ranks, as tensors
/// NAME/fp32, NAME/exp_avg, and so on. Throws Error "FILE: ..." if a file is missing, or if lengths, paddings or maps
/// contradict the parameters' shapes.
void add_optimizer(WriterGrid& grid, CatalogueBuilder& builder);

/// Precedes the expert's number in names of expert parameters.
constexpr std::string_view expert_marker = ".deepspeed_experts.";

/// `name`, a parameter's name on expert rank `expert_rank`, with the global number of its expert. Each rank has
/// `experts` experts.
std::string global_expert_name(const std::string& name, Index expert_rank, Index experts);

/// The number of experts that a rank has in the layer of expert parameter `name`, from the names in `group`; 0 for
/// other parameters.
Index local_experts(const ParameterGroup& group, const std::string& name);

}  // namespace tpx::formats::deepspeed
