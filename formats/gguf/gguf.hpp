// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

namespace tpx::formats {

/// Opens a GGUF file (version 2 or 3, little-endian), or all parts of a split one: `path` is any part, or the directory
/// of one model. Unquantized tensors are in the catalogue, with PyTorch's order of axes; quantized tensors are in
/// `opaque`. Scalar metadata becomes the configuration. Throws Error "FILE: ..." if a part is missing or malformed.
Checkpoint open_gguf(const std::filesystem::path& path);

namespace gguf {

/// Moves quantized tensors into the catalogue, with values of `dtype` that are computed on reading. Throws Error
/// "tensor 'NAME': ..." for a type that tpx cannot dequantize.
void dequantize(Checkpoint& checkpoint, DType dtype);

}  // namespace gguf
}  // namespace tpx::formats
