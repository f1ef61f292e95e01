// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

namespace tpx::formats {

/// Sets the roles and parameters of a checkpoint from the names alone, for models that no family's rules describe. DCP
/// names state optim.state.PARAMETER.STATE or optimizer.state.PARAMETER.STATE; weights may be below a key such as
/// "model". Returns false and sets nothing if roles are already known or no such state belongs to a weight.
bool assign_named_roles(Checkpoint& checkpoint);

}  // namespace tpx::formats
