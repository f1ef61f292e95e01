// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

namespace tpx::formats {

/// Tells the roles and parameters of a DCP checkpoint of {"model": WEIGHTS, "optim": STATE_DICT, ...} whose names alone
/// do not: because the optimizer counts its parameters, as optimizer.state_dict() does, or because all of it lies below
/// another key. Numbers belong to parameters where the model's order and the shapes leave one way; else a note says
/// that they are left open. Does nothing to other checkpoints.
void tell_training_roles(Checkpoint& checkpoint);

}  // namespace tpx::formats
