// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/builder.hpp"
#include "formats/deepspeed/grid.hpp"

namespace tpx::formats::deepspeed {

/// Adds what is stored of the weights: modules, layers of pipelines, experts, and under ZeRO 3 buffers and frozen
/// parameters, for there the trainable ones exist as master weights only. Throws Error "FILE: tensor 'NAME': ..." for
/// a tensor of another shape than param_shapes tells, or when nothing says how slices join.
void add_weights(const Grid& grid, Builder& builder);

}  // namespace tpx::formats::deepspeed
