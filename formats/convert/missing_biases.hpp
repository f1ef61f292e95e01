// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

namespace tpx::formats {

/// Adds to `source`, without pieces, the biases that a model in Megatron must have and `source` lacks, so that
/// fill_holes() makes them zeros. Nothing happens for other targets, or where more than biases is missing.
void add_missing_biases(Source& source, const Target& target);

}  // namespace tpx::formats
