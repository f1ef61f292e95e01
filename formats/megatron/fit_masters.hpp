// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/dtype.hpp"
#include "lib/layout/express.hpp"

#include <optional>
#include <string>
#include <vector>

namespace tpx::formats::megatron {

/// Fits master weights to the optimizer. A distributed optimizer has masters even of fp32 weights: adds them, as
/// copies, for weights that have moments. A plain optimizer has none: removes masters of fp32 weights. If `dtype` is
/// set, weights are written as `dtype`, and weights that become half precision get masters for either optimizer.
/// `expressed` has Megatron's names. Throws Error (exit 2) if a weight in half precision has moments but no master.
void fit_masters(ExpressedState& expressed, bool distributed, std::optional<DType> dtype,
                 std::vector<std::string>& notes);

}  // namespace tpx::formats::megatron
