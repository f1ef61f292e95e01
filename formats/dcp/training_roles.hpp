// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

namespace tpx::formats {

/// Tells the roles and parameters of a DCP checkpoint of {"model": WEIGHTS, "optim": STATE_DICT, ...} whose names alone
/// do not: because the optimizer counts its parameters, as optimizer.state_dict() does, or because all of it lies below
/// another key. Numbers belong to parameters where the model's order and the shapes leave one way; else a note says
/// that they are left open. Does nothing to other checkpoints.
void tell_training_roles(Checkpoint& checkpoint);

/// The same of a DCP checkpoint whose names no family's rules explain: a model's weights below the keys that training
/// scripts keep them under ("model.model.layers.0..."), and the state of an optimizer beside them, by name, in nested
/// or flattened form, of whatever model. Returns whether roles were told; does nothing where they are told already.
bool tell_roles_by_keys(Checkpoint& checkpoint);

}  // namespace tpx::formats
