// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/layout/express.hpp"
#include "lib/layout/parts.hpp"
#include "lib/layout/reading.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tpx::formats {

/// Two stored tensors, or parts of them, that are one tensor of the model, so that only `kept` is written: a tied
/// output layer, the embedding that layers for multi-token prediction repeat, or values that are the keys of their
/// layer. Nothing is lost only if their values are equal. Or a tensor that the model has no place for, which must be
/// zeros.
struct DroppedCopy {
    std::uint32_t kept = 0;  ///< index into the source's tensors
    std::uint32_t dropped = 0;
    std::string remedy;                  ///< what to do if their values differ
    std::optional<Part> kept_part = {};  ///< of `kept`; unset: all of it
    std::optional<Part> dropped_part = {};
    bool is_zero = false;  ///< `dropped` must be zeros instead, whatever `kept` is
};

/// The copies that a conversion to another dialect drops: weights and masters.
std::vector<DroppedCopy> dropped_copies(const Checkpoint& checkpoint, const Reading& reading);

/// The parts of stored tensors that `expressed` drops because they must equal other parts (Expressed::dropped_ties).
/// Throws Error when the source lacks one of them.
std::vector<DroppedCopy> dropped_ties(const Checkpoint& checkpoint, const Reading& reading, const Expressed& expressed);

}  // namespace tpx::formats
