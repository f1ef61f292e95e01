// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tpx::formats {

/// Stored tensors that are one quantized weight: codes, scales, zeros.
struct QuantizedTensor {
    std::string name;            ///< of the weight
    Shape shape;                 ///< of the weight
    Strides strides;             ///< of the weight's elements in the order in which `scaled` has them
    ScaledCodes scaled;          ///< its values; of split tensors, see values_in()
    std::string scheme;          ///< "fp8 e4m3, blocks of 128x128"
    std::uint32_t codes = 0;     ///< number of the stored tensor that has its place
    std::vector<Piece> sources;  ///< of all its stored tensors
};

/// Whether `checkpoint` has tensors of a quantization scheme that dequantize() knows.
bool is_quantized(const Checkpoint& checkpoint);

/// The quantized weights of `checkpoint`, with values of `dtype`, or of the type that the model's framework
/// dequantizes to. Throws Error "tensor 'NAME': ..." for scales that are missing or do not fit.
std::vector<QuantizedTensor> quantized_tensors(const Checkpoint& checkpoint, std::optional<DType> dtype);

/// How many tensors have each scheme. Throws Error like quantized_tensors().
std::map<std::string, std::size_t> quantization_schemes(const Checkpoint& checkpoint);

/// Replaces quantized weights by their dequantized values, and repeats the reading of names. The values are computed
/// when they are read. Does nothing if is_quantized() is false. Throws Error like quantized_tensors().
void dequantize(Source& source, std::optional<DType> dtype);

/// Why a conversion to `target` stores what quantized weights of `source` dequantize to, though the user asked for no
/// type of values; empty where the user did. Throws Error like quantized_tensors().
std::string dequantization_note(const Source& source, const Target& target);

/// Whether both checkpoints store tensors of the same names and types.
bool has_same_tensors(const Checkpoint& a, const Checkpoint& b);

/// Whether a conversion to `target` needs values of quantized weights; otherwise their codes and scales are copied, and
/// split like the weights where their blocks allow it.
bool needs_values(const Source& source, const Target& target);

}  // namespace tpx::formats
