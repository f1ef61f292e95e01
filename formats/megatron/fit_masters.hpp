// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/dtype.hpp"
#include "lib/layout/express.hpp"

#include <optional>
#include <string>
#include <vector>

namespace tpx::formats::megatron {

/// Gives weights of single precision that have moments the masters that a distributed optimizer keeps of them, which
/// are these weights, or takes them away for a plain one, which keeps none. `expressed` has Megatron's names; weights
/// are written as `dtype` when it is set, and ones that become halves by it get masters of either optimizer. Throws
/// Error (exit 2) when a weight in half precision has moments and no master.
void fit_masters(Expressed& expressed, bool distributed, std::optional<DType> dtype, std::vector<std::string>& notes);

}  // namespace tpx::formats::megatron
