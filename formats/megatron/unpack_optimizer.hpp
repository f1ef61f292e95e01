// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/layout/families.hpp"

#include <span>

namespace tpx::formats {

/// Converts the distributed optimizer's buckets in torch_dist `checkpoint` (dp_reshardable, dp_zero_gather_scatter) and
/// its flat cells (fully_sharded_model_space) to whole tensors, as in fully_reshardable; param_groups move to the
/// common state. If args and the rules of `families` do not explain the buckets, leaves them unchanged and adds a note
/// that gives the reason. Adds the note of padding_bug_note() to fully_reshardable checkpoints.
void unpack_optimizer(Checkpoint& checkpoint, const Families& families, const Config& config);

/// Renames the master weights of `checkpoint`, a Megatron checkpoint, as the distributed optimizer names them
/// ("param"), or as the plain one does ("fp32_param").
void rename_masters(Checkpoint& checkpoint, bool distributed);

}  // namespace tpx::formats
