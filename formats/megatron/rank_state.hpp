// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/torch/archive.hpp"
#include "formats/torch/archive_writer.hpp"
#include "formats/torch/value.hpp"

#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

namespace tpx::formats::megatron {

/// What the ranks' files have in common beside tensors, in the shape of torch_dist's common.pt: args, iteration,
/// schedulers, and of the optimizer its groups of parameters and loss scale. RNG states, which are each rank's own, are
/// left out. Elements of its tensors go to `storages`.
std::shared_ptr<const torch::Value> common_of_ranks(const torch::Archive& archive, torch::Contents& storages);

/// A copy of dict `value` without some keys.
torch::Value without_keys(torch::Document& document, torch::Value value, std::initializer_list<std::string_view> keys);

/// One optimizer as a common state has it: its groups of parameters, and what stands beside them.
struct OptimizerState {
    torch::Value outer;                ///< a dict
    std::vector<torch::Value> groups;  ///< dicts without "params"
};

/// The optimizers of a common state, dense before experts, with masters or without; empty when it has none. Throws
/// Error when they are not of the form that Megatron writes.
std::vector<OptimizerState> optimizers_of(torch::Value common);

}  // namespace tpx::formats::megatron
