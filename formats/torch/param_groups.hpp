// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/torch/value.hpp"

#include <optional>
#include <span>
#include <string>
#include <utility>

namespace tpx::formats {

/// The "param_groups" of an optimizer's state_dict with parameters by name. `moments` are the numbers of the content's
/// exp_avg tensors and their parameters. `known` are the source's groups, which get the "params" with matching
/// settings; without them, parameters with equal settings form a group. Unset if the content has no settings, or a
/// parameter matches no group.
std::optional<torch::Value> named_param_groups(torch::Document& document, const Content& content,
                                               std::span<const std::pair<std::uint32_t, std::string>> moments,
                                               std::optional<torch::Value> known);

}  // namespace tpx::formats
