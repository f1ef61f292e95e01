// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

namespace tpx::formats {

/// The settings of the optimizer in a DCP checkpoint, which has an object for each setting: of a group,
/// "optim.param_groups.0.lr", or in the flattened form of each parameter, "optimizer.param_groups.PARAMETER.lr".
/// Nothing if there are none. Throws Error if one is malformed.
std::optional<Adam> adam_of_objects(const Source& source);

}  // namespace tpx::formats
