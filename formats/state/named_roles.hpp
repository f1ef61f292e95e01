// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

namespace tpx::formats {

/// Tells the roles and parameters of a checkpoint by the names alone, as DCP has them: optim.state.PARAMETER.STATE, or
/// optimizer.state..., beside the weights, which may lie below a key such as "model". For models that no family's rules
/// know. Says false, and tells nothing, where roles are told already or no such state belongs to a weight.
bool tell_named_roles(Checkpoint& checkpoint);

}  // namespace tpx::formats
