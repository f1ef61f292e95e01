// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/conversion.hpp"

namespace tpx::formats {

/// Leaves out what is no weight. A parameter that has only a master weight (ZeRO 3) keeps that as its weight; with
/// `masters` every parameter does that has one. Returns how many tensors it leaves out.
std::size_t keep_weights(Source& source, bool masters);

}  // namespace tpx::formats
