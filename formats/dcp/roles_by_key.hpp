// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

namespace tpx::formats {

/// Sets roles and parameters of {"model": WEIGHTS, ...}, possibly with an optimizer that names its parameters, by the
/// names below those keys. Does nothing to other checkpoints.
void set_roles_below_keys(Checkpoint& checkpoint);

/// Sets roles and parameters of {"state": {NAME: {"exp_avg": ...}}, ...}, the state_dict() of an optimizer alone;
/// returns whether `checkpoint` has this form.
bool set_roles_of_optimizer(Checkpoint& checkpoint);

}  // namespace tpx::formats
