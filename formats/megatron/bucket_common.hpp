// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/torch/value.hpp"

#include <memory>
#include <vector>

namespace tpx::formats::megatron {

/// The common state of `checkpoint` as fully_reshardable has it: what the objects `taken` of the catalogue keep of each
/// optimizer (param_groups, grad_scaler) is in its entry "optimizer". Throws Error when an object is not of the form,
/// or when groups of ranks are at different steps.
std::shared_ptr<const torch::Value> common_with_groups(Checkpoint& checkpoint, const std::vector<bool>& taken);

/// `common` with the settings that tell Megatron of a fully reshardable distributed optimizer, or, when it is not
/// `distributed`, of a plain one.
torch::Value with_sharding_type(torch::Document& document, torch::Value common, bool distributed);

/// `common` with the dict that optimizers with master weights have around torch's, or without it.
torch::Value with_masters(torch::Document& document, torch::Value common, bool masters);

}  // namespace tpx::formats::megatron
