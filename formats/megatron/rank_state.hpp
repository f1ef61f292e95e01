// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/archive_writer.hpp"
#include "formats/encodings/torch/value.hpp"
#include "formats/state/common_optimizers.hpp"

#include <memory>
#include <vector>

namespace tpx::formats::megatron {

/// The state that the ranks' files have in common, except for their tensors, in the form of torch_dist's common.pt:
/// args, iteration, schedulers, and the optimizer's param_groups and loss scale. RNG states, which differ by rank, are
/// left out. The elements of small tensors in it are added to `storages`.
std::shared_ptr<const torch::Value> common_of_ranks(const torch::Archive& archive, torch::Contents& storages);

/// Whether a dict with a group's settings belongs to parameters of experts that are divided among ranks.
bool is_group_of_experts(torch::Value group);

/// Whether a dict with a group's settings belongs to parameters with momentum and without second moment, as of Muon.
bool is_muon_group(torch::Value group);

/// Whether a chain of optimizers consists of Muon, for matrices, and Adam, for other parameters.
bool has_muon(const std::vector<OptimizerState>& states);

/// The wd_mult of a group of parameters: 1 with weight decay, 0 without. Throws Error for other values.
double decay_of(torch::Value group);

/// The wd_mult of each group of `states`, in their order and each once; then those of 1 and 0 that are missing.
std::vector<double> decays(const std::vector<OptimizerState>& states);

/// The group whose settings apply to parameters of experts or others, with wd_mult `decay`. Throws Error if there is
/// none.
torch::Value group_like(torch::Document& document, const std::vector<OptimizerState>& states, bool experts,
                        double decay);

/// The common state of torch_dist with as many optimizers as Megatron expects: `two`, of dense parameters and of
/// experts, or one. Settings come from the existing groups; experts get a group without weight decay if they have
/// `vectors`. Muon and Adam remain separate optimizers.
torch::Value with_optimizers(torch::Document& document, torch::Value common, bool two, bool vectors);

}  // namespace tpx::formats::megatron
