// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <map>
#include <string>

namespace tpx::formats::deepspeed {

/// Whether ZeRO 3 wrote the checkpoint, which then stores master weights only.
bool stores_masters_only(const Checkpoint& checkpoint);

/// Whether a universal checkpoint stores master weights only: no parameter has both a master weight and a weight.
bool universal_stores_masters_only(const Checkpoint& checkpoint);

/// Sets the dtypes in which modules store the parameters in `weights`, or the training dtype for those that modules
/// lack.
void set_weight_dtypes(const Checkpoint& checkpoint, std::map<std::string, DType>& weights);

}  // namespace tpx::formats::deepspeed
