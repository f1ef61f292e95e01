// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <map>
#include <string>

namespace tpx::formats::deepspeed {

/// Whether a checkpoint was written without the weights of its parameters, which are stored as master weights only: by
/// ZeRO 3.
bool stores_masters_only(const Checkpoint& checkpoint);

/// The same of a universal checkpoint: one that has a weight of none of its masters.
bool universal_stores_masters_only(const Checkpoint& checkpoint);

/// Sets the dtypes in which modules keep the parameters in `weights`, or, if a module lacks one, the training dtype.
void set_weight_dtypes(const Checkpoint& checkpoint, std::map<std::string, DType>& weights);

}  // namespace tpx::formats::deepspeed
