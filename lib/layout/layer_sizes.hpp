// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/reading.hpp"
#include "lib/layout/states.hpp"

namespace tpx {

/// Adds the sizes that vary from layer to layer to `states`, those of a model without tensors.
void add_layer_sizes(const Reading& source, States& states);

/// Whether the size of one of the factors of a stored tensor follows only from its shape, not from a formula.
bool has_size_of_shape(const Reading& source, const Meaning& meaning);

}  // namespace tpx
