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
/// output layer, the embedding repeated in multi-token prediction layers, or attention values that equal the keys of
/// their layer. Their values must be equal, or data is lost. Or a tensor that the model does not have, which must be
/// all zeros.
struct DroppedCopy {
    std::uint32_t kept = 0;  ///< index into the source's tensors
    std::uint32_t dropped = 0;
    std::string remedy;                  ///< what to do if their values differ
    std::optional<Part> kept_part = {};  ///< of `kept`; unset: the whole tensor
    std::optional<Part> dropped_part = {};
    bool is_zero = false;  ///< `dropped` must be all zeros; ignore `kept`
};

/// The copies that a conversion to another dialect drops: weights and masters.
std::vector<DroppedCopy> dropped_copies(const Checkpoint& checkpoint, const Reading& reading);

/// The parts of stored tensors that `expressed` drops because they must equal other parts
/// (ExpressedState::dropped_ties). Throws Error if the source lacks one of them.
std::vector<DroppedCopy> dropped_ties(const Checkpoint& checkpoint, const Reading& reading,
                                      const ExpressedState& expressed);

}  // namespace tpx::formats
