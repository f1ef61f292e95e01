// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <filesystem>
#include <string>

namespace tpx::formats {

/// Replaces the weights of `source` that the LoRA adapter in `directory` changes by the weights that PEFT's
/// merge_and_unload() computes on a CPU. The values are computed when they are read; quantized weights are dequantized
/// first. Returns a note about what was merged. Throws Error if the adapter belongs to another base, with the names and
/// shapes that do not match, or if it cannot be merged.
std::string merge_adapter(Source& source, const std::filesystem::path& directory);

}  // namespace tpx::formats
