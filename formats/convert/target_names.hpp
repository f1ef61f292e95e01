// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <span>

namespace tpx::formats {

/// Throws Error "tensor 'NAME': cause; remedy" for a name that files of `format` cannot hold as it is: one that is not
/// UTF-8, that safetensors reserves, that HDF5 would cut at a NUL, or that is no name of a folder, of which a universal
/// checkpoint has one for each parameter.
void check_names(Format format, std::span<const Tensor> tensors);

}  // namespace tpx::formats
