// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/reading.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace tpx {

/// Whether a tensor of this name belongs to quantized weights, as packed values or as a scale: GPTQ, AWQ, bitsandbytes,
/// compressed-tensors, FP8 and MXFP4 as Hugging Face checkpoints name them.
bool is_quantized_weight_part(std::string_view name);

/// Why no rule can describe the tensor, and how to obtain a model that rules can describe; empty for other tensors. A
/// LoRA adapter must first be merged into its base, and quantized weights dequantized.
std::string_view why_beyond_rules(std::string_view name);

/// Tensors that no rule matches because they are outside the language model; every rank stores them whole.
std::vector<const Tensor*> outer_tensors(const Reading& reading, std::span<const Tensor> tensors);

}  // namespace tpx
