// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"
#include "formats/state/adam.hpp"
#include "formats/torch/flat_groups.hpp"
#include "lib/state/role.hpp"

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// The roles of the tensors in a training script's file.
struct TrainingRoles {
    std::vector<Role> roles;              ///< parallel to the tensors
    std::vector<std::string> parameters;  ///< likewise: the parameter to which each belongs
    std::optional<Adam> adam;
    std::vector<std::string> notes;
};

/// Recognizes {"model": WEIGHTS, "optimizer": STATE_DICT, ...} under common keys, including Lightning's, and weights
/// alone; removes prefixes of DataParallel, DDP and torch.compile from keys of weights. Matches state to parameters by
/// name, by "param_names" of its groups, or by number if the model's order is unambiguous; else adds a note. `tensors`
/// are training_tensors(archive). Unset if there are no weights, or if names alone determine all roles.
std::optional<TrainingRoles> read_training(const torch::Archive& archive, const TrainingTensors& tensors);

/// The settings of the optimizer in the file at `path`, if it is like Adam and its parameters are known.
std::optional<Adam> adam_of_file(const std::filesystem::path& path);

}  // namespace tpx::formats
