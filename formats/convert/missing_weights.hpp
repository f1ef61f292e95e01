// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <map>
#include <string>
#include <vector>

namespace tpx::formats {

/// Gives parameters that are stored as master weights only (DeepSpeed's ZeRO 3, universal ones of pipelines) tensors of
/// their own over the masters' bytes. Returns their names, and the types that they have in training.
std::map<std::string, DType> add_missing_weights(Source& source);

/// Whether `checkpoint` was written without the weights of its parameters, which are stored as master weights only.
/// Everywhere else a weight that is missing beside its master was lost.
bool stores_masters_only(const Checkpoint& checkpoint);

/// The parameters whose weights are missing, although their masters are stored and the format stores weights, too.
std::vector<std::string> lost_weights(const Checkpoint& checkpoint);

}  // namespace tpx::formats
