// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <span>

namespace tpx::formats {

/// Throws Error "tensor 'NAME': cause; remedy" for a name that `format` cannot store unchanged: it is not UTF-8,
/// safetensors reserves it, HDF5 would cut it at a NUL, or it cannot name a folder, which a universal checkpoint has
/// for each parameter.
void check_target_names(Format format, std::span<const Tensor> tensors);

}  // namespace tpx::formats
