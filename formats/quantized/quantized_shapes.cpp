// SPDX-License-Identifier: Apache-2.0
#include "formats/quantized/quantized_shapes.hpp"

#include "lib/core/error.hpp"

#include <algorithm>

namespace tpx::formats {
namespace {

using Code = ScaledCodes::Code;

constexpr Index default_block = 128;
constexpr Index mxfp4_block = 32;
constexpr Index nvfp4_block = 16;

std::string block_text(Index rows, Index columns) { return fmt::format("{}x{}", rows, columns); }

/// Rows and columns of a weight of `shape`, whose last two axes are a matrix.
void set_rows(const Shape& shape, QuantizedTensor& made) {
    const int axes = shape.size();
    made.shape = shape;
    made.strides = row_major(shape);
    made.scaled.columns = axes == 0 ? 1 : shape[axes - 1];
    made.scaled.matrix_rows = axes < 2 ? 1 : shape[axes - 2];
    made.scaled.rows = made.scaled.columns == 0 ? 0 : volume(shape) / made.scaled.columns;
}

/// compressed-tensors multiplies in the type of its scales; other frameworks in f32, for the model's type.
void set_dtype(const Tensor& scales, const QuantizationSettings& settings, QuantizedTensor& made) {
    const bool exponents = scales.dtype == DType::u8 || scales.dtype == DType::f8_e8m0;
    if (scales.dtype != DType::f32 && scales.dtype != DType::bf16 && scales.dtype != DType::f16 && !exponents)
        throw failure("'{}' is {}, expected f16, bf16 or f32", scales.name, name(scales.dtype));
    if (settings.method == "compressed-tensors" && !exponents)
        made.scaled.dtype = scales.dtype;
    else
        made.scaled.dtype = settings.asked.value_or(settings.dtype.value_or(DType::bf16));
}

Shape scales_shape(const QuantizedTensor& made) {
    Shape expected = made.shape;
    const int axes = expected.size();
    if (axes >= 2) expected[axes - 2] = made.scaled.scale_rows();
    if (axes >= 1) expected[axes - 1] = made.scaled.scale_columns();
    return expected;
}

/// Scales may lack axes of size one at the end, such as the columns of a scale for each row.
bool fits_blocks(const Shape& scales, const QuantizedTensor& made) {
    Shape expected = scales_shape(made);
    if (scales == expected) return true;
    const int axes = expected.size();
    if (axes != scales.size() + 1 || expected[axes - 1] != 1) return false;
    return std::equal(scales.begin(), scales.end(), expected.begin());
}

/// Finds the block that one scale is for by the shape of the scales.
void set_blocks(const Tensor& scales, const QuantizationSettings& settings, QuantizedTensor& made) {
    if (!settings.malformed_block.empty())
        throw failure("config.json has the block size {}, expected two positive numbers, such as [128, 128]",
                      settings.malformed_block);
    ScaledCodes& scaled = made.scaled;
    const auto fits = [&](Index rows, Index columns) {
        scaled.block_rows = rows;
        scaled.block_columns = columns;
        return fits_blocks(scales.shape, made);
    };
    if (volume(scales.shape) == 1 && !settings.block) {
        scaled.matrix_rows = std::max<Index>(scaled.rows, 1);
        scaled.block_rows = scaled.matrix_rows;
        scaled.block_columns = std::max<Index>(scaled.columns, 1);
        made.scheme += ", one scale a tensor";
        return;
    }
    const auto [rows, columns] = settings.block.value_or(std::pair{default_block, default_block});
    if (fits(rows, columns)) {
        made.scheme += fmt::format(", blocks of {}", block_text(rows, columns));
        return;
    }
    if (!settings.block && fits(1, std::max<Index>(scaled.columns, 1))) {
        made.scheme += ", one scale a row";
        return;
    }
    const int axes = scales.shape.size();
    const Index groups = axes == 0 ? 0 : scales.shape[axes - 1];
    if (!settings.block && groups > 0 && scaled.columns % groups == 0 && fits(1, scaled.columns / groups)) {
        made.scheme += fmt::format(", groups of {}", scaled.columns / groups);
        return;
    }
    scaled.block_rows = rows;
    scaled.block_columns = columns;
    throw failure("'{}' has shape {}; blocks of {} of a weight {} have scales {}", scales.name, to_string(scales.shape),
                  block_text(rows, columns), to_string(made.shape), to_string(scales_shape(made)));
}

/// Whether words of codes are AWQ's, not GPTQ's. Throws Error for packings that are not read.
bool is_awq(const Tensor& codes, const Tensor& scales, const QuantizationSettings& settings) {
    const std::string& packing = settings.packing_format;
    if (!packing.empty() && packing != "gptq" && packing != "gptq_v2" && packing != "gemm")
        throw failure("unsupported packing '{}'; supported are gptq, gptq_v2 and gemm", packing);
    if (codes.shape.size() != 2 || scales.shape.size() != 2)
        throw failure("packed codes {} with scales {}, expected two axes each", to_string(codes.shape),
                      to_string(scales.shape));
    return settings.method == "awq" || (settings.method.empty() && codes.shape[1] != scales.shape[1]);
}

/// The shape of a weight by that of its words.
void set_word_shape(const Tensor& codes, const Tensor& scales, bool awq, Index bits, QuantizedTensor& made) {
    if (bits != 4 && (awq || (bits != 2 && bits != 3 && bits != 8)))
        throw failure("unsupported codes of {} bits; supported are 4 and, of GPTQ, 2, 3 and 8", bits);
    const Index columns = scales.shape[1];
    Index rows = codes.shape[0];
    const bool overflows = !awq && __builtin_mul_overflow(rows, 32, &rows);
    if (overflows || checked_volume({rows, columns}) < 0)
        throw failure("packed codes of impossible shape {}", to_string(codes.shape));
    Index code_bits = 0;  // in a row of codes
    if (__builtin_mul_overflow(columns, bits, &code_bits))
        throw failure("scales of impossible shape {}", to_string(scales.shape));
    const bool is_whole = code_bits % 32 == 0 && (awq || rows % bits == 0);
    if (!awq) rows /= bits;
    if (!is_whole || codes.shape[1] != (awq ? code_bits / 32 : columns))
        throw failure("shape {} of the codes does not match shape {} of the scales and {} bits a code",
                      to_string(codes.shape), to_string(scales.shape), bits);
    set_rows({rows, columns}, made);
    made.shape = {columns, rows};
    made.strides = {1, columns};
}

}  // namespace

bool is_fp8(DType dtype) { return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2; }

/// gpt-oss: blocks of [expert, row, block, 16] bytes are the transposed weight [expert, column, row].
void shape_mxfp4(const Tensor& codes, const Tensor& scales, const QuantizationSettings& settings,
                 QuantizedTensor& made) {
    const Shape& stored = codes.shape;
    if (stored.size() != 4 || stored[3] * 2 != mxfp4_block)
        throw failure("MXFP4 blocks of shape {}, expected [experts, rows, blocks, {}]", to_string(stored),
                      mxfp4_block / 2);
    const Shape expected{stored[0], stored[1], stored[2]};
    if (scales.dtype != DType::u8 || scales.shape != expected)
        throw failure("'{}' is {} {}, expected u8 {}", scales.name, name(scales.dtype), to_string(scales.shape),
                      to_string(expected));
    Index columns = 0;
    if (__builtin_mul_overflow(stored[2], mxfp4_block, &columns) || checked_volume({stored[0], stored[1], columns}) < 0)
        throw failure("MXFP4 blocks of impossible shape {}", to_string(stored));
    set_rows({stored[0], stored[1], columns}, made);
    made.shape = {stored[0], columns, stored[1]};
    made.strides = {columns * stored[1], 1, columns};
    made.scaled.code = Code::f4_e2m1;
    made.scaled.bits = 4;
    made.scaled.row_bytes = static_cast<std::uint64_t>(columns / 2);
    made.scaled.block_columns = mxfp4_block;
    made.scaled.dtype = settings.asked.value_or(settings.dtype.value_or(DType::bf16));
    made.scheme = "mxfp4, blocks of 32";
}

/// FP8 and int8: a code for each element.
void shape_plain(const Tensor& codes, const Tensor& scales, const QuantizationSettings& settings,
                 QuantizedTensor& made) {
    set_rows(codes.shape, made);
    made.scaled.row_bytes = static_cast<std::uint64_t>(made.scaled.columns);
    const bool fp8 = is_fp8(codes.dtype);
    made.scaled.code = codes.dtype == DType::f8_e5m2 ? Code::f8_e5m2 : fp8 ? Code::f8_e4m3 : Code::signed_integer;
    made.scheme = fp8 ? fmt::format("fp8 {}", codes.dtype == DType::f8_e5m2 ? "e5m2" : "e4m3") : "int8";
    set_blocks(scales, settings, made);
    set_dtype(scales, settings, made);
}

void shape_fp4(const Tensor& codes, const Tensor& scales, const QuantizationSettings& settings, QuantizedTensor& made) {
    const bool is_mx = scales.dtype == DType::u8 || scales.dtype == DType::f8_e8m0;
    if (!is_mx && scales.dtype != DType::f8_e4m3)
        throw failure("'{}' is {}, expected f8_e4m3 (NVFP4) or u8 (MXFP4)", scales.name, name(scales.dtype));
    const Index block = is_mx ? mxfp4_block : nvfp4_block;
    Shape shape = codes.shape;
    const int axes = shape.size();
    if (axes < 2 || __builtin_mul_overflow(shape[axes - 1], 2, &shape[axes - 1]) || checked_volume(shape) < 0)
        throw failure("FP4 codes of impossible shape {}", to_string(codes.shape));
    set_rows(shape, made);
    made.scaled.code = Code::f4_e2m1;
    made.scaled.bits = 4;
    made.scaled.row_bytes = static_cast<std::uint64_t>(made.scaled.columns / 2);
    made.scaled.block_columns = block;
    Shape expected = shape;
    expected[axes - 1] = shape[axes - 1] / block;
    if (shape[axes - 1] % block != 0 || scales.shape != expected)
        throw failure("'{}' has shape {}; blocks of {} of a weight {} have scales {}", scales.name,
                      to_string(scales.shape), block, to_string(shape), to_string(expected));
    made.scaled.dtype = settings.asked.value_or(settings.dtype.value_or(DType::bf16));
    made.scheme = fmt::format("{}, blocks of {}", is_mx ? "mxfp4" : "nvfp4", block);
}

/// compressed-tensors' pack-quantized: codes of 4 or 8 bits, a whole number of words a row.
void shape_packed(const Tensor& codes, const Tensor& scales, const Shape& shape, const QuantizationSettings& settings,
                  QuantizedTensor& made) {
    if (codes.shape.size() != 2) throw failure("packed weights of shape {}, expected two axes", to_string(codes.shape));
    set_rows(shape, made);
    const Index words = codes.shape[1], columns = made.scaled.columns;
    const auto fits = [&](Index bits) { return words == (columns * bits + 31) / 32; };
    if (made.shape[0] != codes.shape[0] || (!fits(4) && !fits(8)))
        throw failure("{} words hold no weight {} of 4 or 8 bits an element", to_string(codes.shape),
                      to_string(made.shape));
    made.scaled.bits = fits(4) ? 4 : 8;
    made.scaled.code = Code::offset_integer;
    made.scaled.row_bytes = static_cast<std::uint64_t>(words) * 4;
    made.scheme = fmt::format("int{} packed", made.scaled.bits);
    set_blocks(scales, settings, made);
    set_dtype(scales, settings, made);
}

void shape_packed_words(const Tensor& codes, const Tensor& scales, const Tensor* zeros,
                        const QuantizationSettings& settings, QuantizedTensor& made) {
    const bool awq = is_awq(codes, scales, settings);
    const Index bits = settings.bits.value_or(4);
    set_word_shape(codes, scales, awq, bits, made);
    ScaledCodes& scaled = made.scaled;
    scaled.block_rows = settings.group_size.value_or(std::max<Index>(scaled.rows, 1));
    scaled.block_columns = 1;
    const Shape expected{scaled.scale_rows(), scaled.columns}, words{scaled.scale_rows(), scaled.columns * bits / 32};
    if (scales.shape != expected)
        throw failure("'{}' has shape {}, expected {} ({} rows in groups of {})", scales.name, to_string(scales.shape),
                      to_string(expected), scaled.rows, scaled.block_rows);
    if (scales.dtype != DType::f16 && scales.dtype != DType::bf16 && scales.dtype != DType::f32)
        throw failure("'{}' is {}, expected f16, bf16 or f32", scales.name, name(scales.dtype));
    if (zeros == nullptr && (awq || !settings.symmetric.value_or(false)))
        throw failure("its zeros '{}.qzeros' are missing", codes.name.substr(0, codes.name.rfind('.')));
    if (zeros != nullptr && (zeros->dtype != DType::i32 || zeros->shape != words))
        throw failure("'{}' is {} {}, expected i32 {}", zeros->name, name(zeros->dtype), to_string(zeros->shape),
                      to_string(words));
    scaled.bits = static_cast<int>(bits);
    scaled.code = zeros != nullptr ? Code::unsigned_integer : Code::offset_integer;
    scaled.packing = awq ? ScaledCodes::Packing::interleaved : ScaledCodes::Packing::columns;
    scaled.zero_packing = awq ? ScaledCodes::Packing::interleaved : ScaledCodes::Packing::rows;
    // The first version of GPTQ stores zeros less one.
    scaled.zero_offset = awq || settings.packing_format == "gptq_v2" ? 0 : 1;
    scaled.row_bytes = static_cast<std::uint64_t>(codes.shape[1]) * 4;
    scaled.dtype = scales.dtype;
    made.scheme = fmt::format("{} int{}, groups of {}", awq ? "awq" : "gptq", bits, scaled.block_rows);
}

}  // namespace tpx::formats
