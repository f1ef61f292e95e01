// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/conversion.hpp"

#include <map>
#include <string>

namespace tpx::formats {

/// Gives a DeepSpeed checkpoint's parameters that exist as master weights only (ZeRO 3, universal ones of pipelines)
/// tensors of their own over the masters' bytes. Returns their names, and the types in which a module keeps them.
std::map<std::string, DType> add_missing_weights(Source& source);

}  // namespace tpx::formats
