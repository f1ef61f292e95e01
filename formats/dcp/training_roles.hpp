// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

namespace tpx::formats {

/// Sets roles and parameters of a DCP checkpoint of {"model": WEIGHTS, "optim": STATE_DICT, ...} if names do not
/// determine them: because the optimizer numbers its parameters, as optimizer.state_dict() does, or because everything
/// is below another key. Matches numbers to parameters if the model's order and the shapes allow only one way; else
/// adds a note that they are ambiguous. Does nothing to other checkpoints.
void assign_training_roles(Checkpoint& checkpoint);

}  // namespace tpx::formats
