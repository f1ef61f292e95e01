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

/// Whether experts have an optimizer of their own beside that of all other parameters.
bool two_optimizers(const Config& args, const Layout& layout);

/// Over how many ranks the distributed optimizer of experts, or of all others, shares its state out.
int sharing_ranks(const Layout& layout, bool experts);

/// A vector of a buffer: the state of all its parameters for one role.
struct BufferVector {
    Role role = Role::master;  ///< master, exp_avg, exp_avg_sq
    torch::StoredTensor stored;
};

/// The role of vector "param", "exp_avg" or "exp_avg_sq". Throws Error for others.
Role role_of_vector(std::string_view name);

/// The buffers, by number, of one optimizer of a distrib_optim.pt. Throws Error when it is not of the form that
/// Megatron writes since February 2024.
std::map<int, std::vector<BufferVector>> buffers_in(const torch::Archive& archive, torch::Value optimizer);

/// Whether weight decay passes parameter `name` of `axes` axes by; such ones make a group of their own.
bool without_decay(std::string_view name, int axes);

/// Adds to `directory`, which has its weights, the optimizer state of model_optim_rng.pt, file number `file`: masters,
/// moments; gives them the names of their parameters, which the file does not tell. Throws Error when numbers or shapes
/// are not those of the parameters.
void add_plain_optimizer(RankDirectory& directory, const torch::Archive& archive, std::uint32_t file,
                         const Config& args, const Layout& layout);

/// The same for distrib_optim.pt, whose flat vectors are cut by the rules of buffers.hpp.
void add_distributed_optimizer(RankDirectory& directory, const torch::Archive& archive, std::uint32_t file,
                               const Config& args, const Layout& layout);

}  // namespace tpx::formats::megatron
