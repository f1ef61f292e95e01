// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"
#include "formats/megatron/rank_files.hpp"
#include "lib/layout/config.hpp"

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

namespace tpx::formats::megatron {

/// Whether experts have their own optimizer.
bool two_optimizers(const Config& args, const Layout& layout);

/// The number of ranks across which the distributed optimizer of experts, or of all other parameters, shards its state.
int sharing_ranks(const Layout& layout, bool experts);

/// A vector of a buffer: the state of all its parameters for one role.
struct BufferVector {
    Role role = Role::master;  ///< master, exp_avg, exp_avg_sq
    torch::StoredTensor stored;
};

/// The role of vector "param", "exp_avg" or "exp_avg_sq". Throws Error for others.
Role role_of_vector(std::string_view name);

/// The buffers, by number, of one optimizer in a distrib_optim.pt. Throws Error unless `optimizer` has the form that
/// Megatron has written since February 2024.
std::map<int, std::vector<BufferVector>> buffers_in(const torch::Archive& archive, torch::Value optimizer);

/// Whether Muon updates parameter `name` with `axes` axes; Adam updates the others.
bool has_momentum(std::string_view name, int axes);

/// Whether parameter `name` with `axes` axes has no weight decay; such parameters form a separate group.
bool without_decay(std::string_view name, int axes);

/// Adds the optimizer state of model_optim_rng.pt, file number `file`, to `directory`, which already has its weights.
/// The file does not name the parameters of masters and moments, so they are matched with the weights. Throws Error if
/// the number of parameters or their shapes differ from those of the weights.
void add_plain_optimizer(RankDirectory& directory, const torch::Archive& archive, std::uint32_t file,
                         const Config& args, const Layout& layout);

/// Same for distrib_optim.pt, whose flat vectors are laid out as in buffers.hpp.
void add_distributed_optimizer(RankDirectory& directory, const torch::Archive& archive, std::uint32_t file,
                               const Config& args, const Layout& layout);

}  // namespace tpx::formats::megatron
