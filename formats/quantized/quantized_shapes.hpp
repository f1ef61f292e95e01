// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/quantized/quantization_settings.hpp"
#include "formats/quantized/quantized.hpp"

namespace tpx::formats {

/// The FP8 types of PyTorch in which frameworks store weights: f8_e4m3 and f8_e5m2.
bool is_fp8(DType dtype);

/// Sets shape, values' type and scheme of a weight by the stored shapes of its codes and scales. Each throws Error for
/// shapes that do not fit each other.
void shape_mxfp4(const Tensor& codes, const Tensor& scales, const QuantizationSettings& settings,
                 QuantizedTensor& made);

/// The same of FP8 and int8, which have a code for each element.
void shape_plain(const Tensor& codes, const Tensor& scales, const QuantizationSettings& settings,
                 QuantizedTensor& made);

/// NVFP4 and MXFP4 of compressed-tensors and ModelOpt: two codes in a byte, and a scale for 16 or 32 elements of a row.
void shape_fp4(const Tensor& codes, const Tensor& scales, const QuantizationSettings& settings, QuantizedTensor& made);

/// The same of codes that are packed into words, of a weight of `shape`.
void shape_packed(const Tensor& codes, const Tensor& scales, const Shape& shape, const QuantizationSettings& settings,
                  QuantizedTensor& made);

/// The same of weights of GPTQ and AWQ: words of codes of the transposed weight, a scale for each column of a group of
/// rows, and `zeros` in words, which may be null.
void shape_packed_words(const Tensor& codes, const Tensor& scales, const Tensor* zeros,
                        const QuantizationSettings& settings, QuantizedTensor& made);

}  // namespace tpx::formats
