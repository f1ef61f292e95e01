// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/torch/archive.hpp"
#include "formats/torch/value.hpp"

#include <memory>

namespace tpx::formats::megatron {

/// What the ranks' files have in common beside tensors, in the shape of torch_dist's common.pt: args, iteration,
/// schedulers, and of the optimizer its groups of parameters. RNG states, which are each rank's own, are left out.
std::shared_ptr<const torch::Value> common_of_ranks(const torch::Archive& archive);

}  // namespace tpx::formats::megatron
