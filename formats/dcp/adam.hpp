// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

namespace tpx::formats {

/// The optimizer settings of a DCP checkpoint, which has an object for each setting of a group,
/// "optim.param_groups.0.lr", or, in flattened form, of a parameter, "optimizer.param_groups.PARAMETER.lr". Unset if
/// there are none. Throws Error if one is malformed.
std::optional<Adam> adam_of_objects(const Source& source);

}  // namespace tpx::formats
