// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <map>
#include <string>
#include <vector>

namespace tpx::formats {

/// Adds weight tensors, backed by the masters' bytes, for parameters that are stored only as master weights
/// (DeepSpeed's ZeRO 3, universal checkpoints of pipelines). Returns their names and training dtypes.
std::map<std::string, DType> add_missing_weights(Source& source);

/// Whether `checkpoint` was written with master weights only. In other checkpoints, a weight that is missing beside its
/// master was lost.
bool stores_masters_only(const Checkpoint& checkpoint);

/// The parameters whose masters are stored but whose weights are missing although the format stores weights.
std::vector<std::string> lost_weights(const Checkpoint& checkpoint);

}  // namespace tpx::formats
