// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/adapters/adapter.hpp"
#include "formats/source.hpp"

#include <vector>

namespace tpx::formats {

/// Replaces each stacked weight by one weight per base tensor: one for the whole stack, or one for each tensor of each
/// expert. Other weights get the names that the base's tensors have. Throws Error if no base tensor has these experts,
/// or if several fit.
std::vector<AdaptedWeight> split_stacked_weights(const Adapter& adapter, const Source& source);

}  // namespace tpx::formats
