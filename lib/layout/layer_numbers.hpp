// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/reading.hpp"

#include <span>

namespace tpx {

/// Turns the numbers in names into indices. Throws Error "tensor 'NAME': ..." if no layer has the number in a name.
void resolve_indices(Reading& reading, std::span<const Tensor> tensors);

/// Sets the number of all layers, including those for multi-token prediction, from the numbers in names if the
/// configuration does not contain it.
void count_layers(Reading& reading);

}  // namespace tpx
