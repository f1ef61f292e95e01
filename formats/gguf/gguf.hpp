// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

namespace tpx::formats {

/// Opens a GGUF file (version 2 or 3, little-endian), or all parts of one that was split: any part, or the directory
/// of one model, may be given. Tensors of numbers are in the catalogue, with shapes as torch has them; those of
/// quantised blocks are told in `quantised`. Scalar metadata becomes the configuration. Throws Error "FILE: ..." when a
/// part is missing or malformed.
Checkpoint open_gguf(const std::filesystem::path& path);

namespace gguf {

/// Puts quantized tensors into the catalogue, with values of `dtype` that are computed when they are read. Throws Error
/// "tensor 'NAME': ..." for a type of which values are not computed.
void dequantize(Checkpoint& checkpoint, DType dtype);

}  // namespace gguf
}  // namespace tpx::formats
