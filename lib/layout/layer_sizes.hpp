// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/reading.hpp"
#include "lib/layout/states.hpp"

namespace tpx {

/// Adds the sizes that vary from layer to layer to what a model without tensors has.
void add_layer_sizes(const Reading& source, States& states);

/// Whether the shape of a stored tensor alone gives the size of one of its factors: no formula does.
bool has_size_of_shape(const Reading& source, const Meaning& meaning);

}  // namespace tpx
