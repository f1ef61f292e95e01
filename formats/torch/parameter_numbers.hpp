// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tpx::formats {

/// The content of a training script's file that the parameter numbers of its optimizer refer to.
struct NumberedModel {
    const torch::Archive& archive;
    std::span<const torch::NamedTensor> tensors;
    std::span<const std::pair<std::string, std::size_t>> weights;  ///< parameter names and tensor numbers, in order
    const std::map<std::int64_t, std::size_t>& masters;  ///< tensor numbers of master weights by parameter number
};

/// The entries of "param_groups" of an optimizer's state_dict() that list their parameters.
std::vector<torch::Value> parameter_groups(torch::Value state_dict);

/// The names of the parameters that `state_dict` numbers: from "param_names" of its groups, or else from the order and
/// the shapes of the weights. Weights that share storage, or that have equal values if the optimizer has only one of
/// them, are one parameter; the latter adds a note. Unset if the names are ambiguous.
std::optional<std::map<std::int64_t, std::string>> names_of_numbers(const NumberedModel& model, torch::Value state_dict,
                                                                    std::vector<std::string>& notes);

}  // namespace tpx::formats
