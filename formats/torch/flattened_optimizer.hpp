// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"
#include "formats/torch/training_roles.hpp"

#include <span>
#include <string>
#include <string_view>

namespace tpx::formats {

/// Reads an optimizer below `key` of `root` whose entries carry the names of its parameters, as "state.NAME.exp_avg"
/// and "param_groups.NAME.lr" do: a state_dict() that torch.distributed.checkpoint.state_dict has flattened, or one
/// without groups. Sets roles, parameters and settings if the model of `training` has every one of its parameters, and
/// otherwise nothing. `prefix` starts the names of the tensors below `root`.
void read_flattened_optimizer(const torch::Archive& archive, torch::Value root, std::string_view prefix,
                              std::string_view key, std::span<const torch::NamedTensor> tensors,
                              TrainingRoles& training);

}  // namespace tpx::formats
