// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"
#include "formats/state/common_optimizers.hpp"

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace tpx::formats::megatron {

/// A trained parameter in a rank file.
struct TrainedParameter {
    std::string_view name;
    int axes = 0;
};

/// Indices of parameters, by optimizer and by group of that optimizer.
using GroupMembers = std::vector<std::vector<std::vector<std::size_t>>>;

/// The parameters of each group of `states`, a chain of Muon and Adam, in the order of `parameters`. If any group is
/// for experts (is_expert_parallel), experts are only in such groups. Throws Error unless each parameter is in exactly
/// one group.
GroupMembers members_of_muon(const std::vector<OptimizerState>& states, std::span<const TrainedParameter> parameters);

/// `common`, whose optimizers are `states`, a chain of Muon and Adam, with groups for experts if there are to be `two`,
/// and without them otherwise. Muon's experts have an optimizer of their own or, if the optimizer is divided by layers,
/// a group. Adam gets an optimizer for experts if they have `vectors`.
torch::Value with_muon_of_experts(torch::Document& document, torch::Value common,
                                  const std::vector<OptimizerState>& states, bool two, bool vectors);

}  // namespace tpx::formats::megatron
