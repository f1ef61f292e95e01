// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/reading.hpp"

#include <span>

namespace tpx {

/// Turns the numbers in names into indices. Throws Error "tensor 'NAME': ..." when a name is not for its number.
void resolve_indices(Reading& reading, std::span<const Tensor> tensors);

/// Sets the number of all layers, with those for multi-token prediction, from the numbers in names if no configuration
/// contains it.
void count_layers(Reading& reading);

}  // namespace tpx
