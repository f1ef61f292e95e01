// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/layout/reading.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tpx::formats {

/// Two stored tensors that are one tensor of the model, so that only `kept` is written: a tied output layer, or the
/// embedding that layers for multi-token prediction repeat. Nothing is lost only if their values are equal.
struct DroppedCopy {
    std::uint32_t kept = 0;  ///< index into the source's tensors
    std::uint32_t dropped = 0;
    std::string remedy;  ///< what to do if their values differ
};

/// The copies that a conversion to another dialect drops: weights and masters.
std::vector<DroppedCopy> dropped_copies(const Checkpoint& checkpoint, const Reading& reading);

}  // namespace tpx::formats
