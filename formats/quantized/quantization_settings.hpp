// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/dtype.hpp"
#include "lib/core/interval.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::formats {

/// What a config.json says of quantization.
struct QuantizationSettings {
    std::string method;                            ///< quant_method: "fp8", "gptq"; may be empty
    std::string packing_format;                    ///< checkpoint_format or version: "gptq_v2", "gemm"; may be empty
    std::optional<Index> bits;                     ///< of a code
    std::optional<Index> group_size;               ///< elements that share a scale; none: all of them
    std::optional<std::pair<Index, Index>> block;  ///< weight_block_size or block_structure: rows and columns
    std::string malformed_block;                   ///< a block size that is none, as it is written; else empty
    std::optional<bool> symmetric;  ///< whether codes have no zero points; unset: not recorded, or groups differ
    std::optional<DType> dtype;     ///< of the model
    std::optional<DType> asked;     ///< by the user, for values
};

/// Whether a setting of config.json, by its path ("quantization_config.bits"), is about quantization.
bool is_quantization_setting(std::string_view key);

/// Reads `config_json`, which may be empty.
QuantizationSettings quantization_settings(const std::string& config_json);

/// `config_json` without quantization, and with `dtype` where it names one.
std::string without_quantization(const std::string& config_json, DType dtype);

/// `config_json` with the settings with which transformers and vLLM load FP8 weights with scales of `block` x `block`
/// elements, all but those of `modules`.
std::string with_fp8_blocks(const std::string& config_json, Index block, const std::vector<std::string>& modules);

}  // namespace tpx::formats
