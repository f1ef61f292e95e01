// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <string>

namespace tpx::formats {

/// Replaces the weight matrices of `source`, a Hugging Face folder whose tensors are whole, by FP8 codes (E4M3) and the
/// scales of blocks of 128 x 128 elements, as transformers computes them, and says so in its config.json. Embeddings,
/// output heads, routers, parts outside the language model, matrices whose rows or columns are not multiples of 128,
/// and what frameworks fuse with these stay as they are. Codes and scales are computed while they are read. Returns a
/// note of what was quantized and what was not. Throws Error if `source` is no such folder, is quantized already, has
/// experts in common tensors, or has no such matrix.
std::string quantize(Source& source);

}  // namespace tpx::formats
