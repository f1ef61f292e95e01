// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"
#include "formats/state/adam.hpp"
#include "lib/state/role.hpp"

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// What the tensors of a training script's file are to its model and its optimizer.
struct Training {
    std::vector<Role> roles;              ///< parallel to the tensors
    std::vector<std::string> parameters;  ///< likewise: the parameter that each is, or is state of
    std::optional<Adam> adam;
    std::vector<std::string> notes;
};

/// Understands {"model": WEIGHTS, "optimizer": STATE_DICT, ...} under the keys that people use for these, Lightning's
/// among them, and weights alone; keys of weights lose what DataParallel, DDP and torch.compile put in front of all of
/// them. State is told by name, by "param_names" of its groups, or by number where the model's order settles it; else a
/// note says that it is not. `tensors` are those of `archive`. Nothing when there are no weights, or names say all.
std::optional<Training> read_training(const torch::Archive& archive, std::span<const torch::NamedTensor> tensors);

/// The settings of the optimizer in the file at `path`, where it is one of Adam's kind whose parameters are known.
std::optional<Adam> adam_of_file(const std::filesystem::path& path);

}  // namespace tpx::formats
