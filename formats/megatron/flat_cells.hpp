// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

namespace tpx::formats::megatron {

/// Takes "chained_0." off the names of optimizer tensors: dense parameters and experts have none in common.
void drop_chain_prefixes(Checkpoint& checkpoint);

/// Optimizer tensors of Megatron-core before 0.15 (fully_sharded_model_space) have their rank's part as one flat last
/// axis, and a leading axis for each axis of the model: its cells. Makes them what the model's own tensors are.
void unpack_cells(Checkpoint& checkpoint);

}  // namespace tpx::formats::megatron
