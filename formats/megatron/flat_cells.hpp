// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

namespace tpx::formats::megatron {

/// Removes "chained_0." from the names of optimizer tensors: dense parameters and experts have no name in common.
void drop_chain_prefixes(Checkpoint& checkpoint);

/// Gives optimizer tensors of Megatron-core before 0.15 (fully_sharded_model_space) the shapes of the model's tensors.
/// Each is stored as cells, one for each rank's part: there is an axis of cells for each axis of the model's tensor,
/// and the last axis contains the flattened elements of a cell.
void unpack_cells(Checkpoint& checkpoint);

}  // namespace tpx::formats::megatron
