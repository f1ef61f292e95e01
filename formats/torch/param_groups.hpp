// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/torch/value.hpp"

#include <optional>
#include <span>
#include <string>
#include <utility>

namespace tpx::formats {

/// The "param_groups" of an optimizer's state_dict whose parameters go by name. `moments` are the numbers of the
/// content's exp_avg tensors and their parameters, `known` the groups that the source has, which get the "params" that
/// their settings are those of; without them, groups are made, one of all that is trained alike. Nothing when the
/// content tells no settings, or a parameter's are those of no group.
std::optional<torch::Value> named_param_groups(torch::Document& document, const Content& content,
                                               std::span<const std::pair<std::uint32_t, std::string>> moments,
                                               std::optional<torch::Value> known);

}  // namespace tpx::formats
