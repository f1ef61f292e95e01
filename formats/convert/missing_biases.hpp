// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

namespace tpx::formats {

/// Adds to `source`, without pieces, the biases that Megatron's model requires and `source` lacks, so that fill_holes()
/// makes them zeros. Does nothing for other targets, or if `source` has unknown tensors or sizes.
void add_missing_biases(Source& source, const Target& target);

}  // namespace tpx::formats
