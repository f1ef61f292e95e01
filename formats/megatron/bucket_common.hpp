// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/torch/value.hpp"

#include <memory>
#include <vector>

namespace tpx::formats::megatron {

/// The common state of `checkpoint` in the form of fully_reshardable: its entry "optimizer" contains what the objects
/// marked in `taken` (one flag per object of the catalogue) store for each optimizer: param_groups and grad_scaler.
/// Throws Error if an object is malformed, or if groups of ranks are at different steps.
std::shared_ptr<const torch::Value> common_with_groups(Checkpoint& checkpoint, const std::vector<bool>& taken);

/// `common` with the settings of a fully reshardable distributed optimizer or, unless `distributed`, of a plain one.
torch::Value with_sharding_type(torch::Document& document, torch::Value common, bool distributed);

/// `common` with or, unless `masters`, without the dict that optimizers with master weights have around torch's.
torch::Value with_masters(torch::Document& document, torch::Value common, bool masters);

}  // namespace tpx::formats::megatron
