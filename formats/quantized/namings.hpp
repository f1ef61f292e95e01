// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/dtype.hpp"

#include <array>
#include <string_view>

namespace tpx::formats {

/// Names of a scheme's parts: the codes' name is the weight's with `codes` behind it, the scales' with `scales`. Both
/// replace `weight` at the end of the weight's name.
struct QuantizedNaming {
    std::string_view codes;
    std::string_view scales;
    std::string_view weight = {};
};

inline constexpr QuantizedNaming block_scales{"", "_scale_inv"};  ///< DeepSeek, Qwen: FP8
inline constexpr QuantizedNaming plain_scales{
    "", "_scale"};  ///< compressed-tensors, ModelOpt: FP8, int8; NVFP4 of ModelOpt
inline constexpr QuantizedNaming mxfp4{"_blocks", "_scales"};  ///< gpt-oss
inline constexpr QuantizedNaming packed{"_packed",
                                        "_scale"};  ///< compressed-tensors: int4, int8 in words of 32 bits; FP4
inline constexpr QuantizedNaming packed_words{".qweight", ".scales",
                                              ".weight"};  ///< GPTQ, AWQ: int4, int8 in words of 32 bits
inline constexpr std::array namings{mxfp4, packed, packed_words, block_scales, plain_scales};

/// Whether tensors of `dtype` may be the codes of a scheme with `naming`.
bool may_be_codes(const QuantizedNaming& naming, DType dtype);

}  // namespace tpx::formats
