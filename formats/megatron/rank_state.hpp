// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/archive_writer.hpp"
#include "formats/encodings/torch/value.hpp"
#include "formats/state/common_optimizers.hpp"

#include <memory>
#include <vector>

namespace tpx::formats::megatron {

/// What the ranks' files have in common beside tensors, in the shape of torch_dist's common.pt: args, iteration,
/// schedulers, and of the optimizer its groups of parameters and loss scale. RNG states, which are each rank's own, are
/// left out. Elements of its tensors go to `storages`.
std::shared_ptr<const torch::Value> common_of_ranks(const torch::Archive& archive, torch::Contents& storages);

/// Whether a group of parameters decays: 1, or 0 when it does not. Throws Error when it does otherwise.
double decay_of(torch::Value group);

/// The weight decays of the groups of `states`, in the order in which they have them; then what is missing of 1 and 0.
std::vector<double> decays(const std::vector<OptimizerState>& states);

/// The group to take settings from for parameters of an optimizer, with or without weight decay. Throws Error when
/// there is none.
torch::Value group_like(torch::Document& document, const std::vector<OptimizerState>& states, bool experts,
                        double decay);

/// The common state of torch_dist with as many optimizers as Megatron asks for: `two`, of dense parameters and of
/// experts, or one. Settings are those of the groups that are there; experts have a group without weight decay where
/// they have `vectors`.
torch::Value with_optimizers(torch::Document& document, torch::Value common, bool two, bool vectors);

}  // namespace tpx::formats::megatron
