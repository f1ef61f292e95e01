// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/layout/families.hpp"

#include <span>

namespace tpx::formats {

/// Makes of the distributed optimizer's buckets in torch_dist `checkpoint` (dp_reshardable, dp_zero_gather_scatter),
/// and of its flat cells (fully_sharded_model_space), whole tensors as fully_reshardable has them; the groups of
/// parameters go into the common state. Where args and the rules of `families` do not explain the buckets, everything
/// is left as it is, and a note says why. Does nothing for other checkpoints.
void unpack_optimizer(Checkpoint& checkpoint, const Families& families, const Config& config);

/// Names the master weights of `checkpoint`, of Megatron's format, as the distributed optimizer does ("param"), or as
/// the plain one ("fp32_param").
void spell_masters(Checkpoint& checkpoint, bool distributed);

}  // namespace tpx::formats
