// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/adapter.hpp"
#include "formats/conversion.hpp"

#include <vector>

namespace tpx::formats {

/// The weights of `adapter` as the base stores them: those of a stack of experts become one for each tensor of `source`
/// that holds rows of it, a single expert or all of them. The rules of the base's family say which tensors these are,
/// and shapes say which parameter of a module an adapter is for. Throws Error "tensor 'NAME': ..." if the base has no
/// such experts, or others.
std::vector<AdaptedWeight> with_experts_as_stored(const Adapter& adapter, const Source& source);

}  // namespace tpx::formats
