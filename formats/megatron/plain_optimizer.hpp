// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"
#include "formats/megatron/rank_files.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace tpx::formats::megatron {

/// Whether a tensor of a rank file belongs to experts.
bool is_of_experts(std::string_view name);

/// A tensor whose elements can be moved as they are. Throws Error, with `what` as its subject, for anything else.
torch::StoredTensor tensor_in(const torch::Archive& archive, torch::Value value, const char* what);

/// Adds the state of one optimizer in model_optim_rng.pt, file number `file`, to `directory`. `parameters` are indices
/// into its tensors, in module order; weight decay determines their groups. Throws Error if the number of parameters or
/// their shapes differ from those of the optimizer.
void read_plain_optimizer(RankDirectory& directory, const torch::Archive& archive, std::uint32_t file,
                          torch::Value optimizer, const std::vector<std::size_t>& parameters);

/// Same, with the parameters of each group.
void read_optimizer_groups(RankDirectory& directory, const torch::Archive& archive, std::uint32_t file,
                           torch::Value optimizer, const std::vector<std::vector<std::size_t>>& groups);

}  // namespace tpx::formats::megatron
