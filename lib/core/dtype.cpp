// SPDX-License-Identifier: Apache-2.0
#include "lib/core/dtype.hpp"

#include <algorithm>
#include <array>

namespace tpx {
namespace {

constexpr std::array table{
    DTypeInfo{DType::boolean, 8, "bool", "BOOL", "bool"},
    DTypeInfo{DType::u8, 8, "u8", "U8", "uint8"},
    DTypeInfo{DType::i8, 8, "i8", "I8", "int8"},
    DTypeInfo{DType::u16, 16, "u16", "U16", "uint16"},
    DTypeInfo{DType::i16, 16, "i16", "I16", "int16"},
    DTypeInfo{DType::u32, 32, "u32", "U32", "uint32"},
    DTypeInfo{DType::i32, 32, "i32", "I32", "int32"},
    DTypeInfo{DType::u64, 64, "u64", "U64", "uint64"},
    DTypeInfo{DType::i64, 64, "i64", "I64", "int64"},
    DTypeInfo{DType::f16, 16, "f16", "F16", "float16"},
    DTypeInfo{DType::bf16, 16, "bf16", "BF16", "bfloat16"},
    DTypeInfo{DType::f32, 32, "f32", "F32", "float32"},
    DTypeInfo{DType::f64, 64, "f64", "F64", "float64"},
    DTypeInfo{DType::c32, 32, "c32", "", "complex32"},
    DTypeInfo{DType::c64, 64, "c64", "C64", "complex64"},
    DTypeInfo{DType::c128, 128, "c128", "", "complex128"},
    DTypeInfo{DType::f8_e5m2, 8, "f8_e5m2", "F8_E5M2", "float8_e5m2"},
    DTypeInfo{DType::f8_e4m3, 8, "f8_e4m3", "F8_E4M3", "float8_e4m3fn"},
    DTypeInfo{DType::f8_e8m0, 8, "f8_e8m0", "F8_E8M0", "float8_e8m0fnu"},
    DTypeInfo{DType::f8_e4m3fnuz, 8, "f8_e4m3fnuz", "F8_E4M3FNUZ", "float8_e4m3fnuz"},
    DTypeInfo{DType::f8_e5m2fnuz, 8, "f8_e5m2fnuz", "F8_E5M2FNUZ", "float8_e5m2fnuz"},
    DTypeInfo{DType::f4, 4, "f4", "F4", ""},
    DTypeInfo{DType::f6_e2m3, 6, "f6_e2m3", "F6_E2M3", ""},
    DTypeInfo{DType::f6_e3m2, 6, "f6_e3m2", "F6_E3M2", ""},
    DTypeInfo{DType::f4_x2, 8, "f4_e2m1_x2", "", "float4_e2m1fn_x2"},
    DTypeInfo{DType::qint8, 8, "qint8", "", "qint8"},
    DTypeInfo{DType::quint8, 8, "quint8", "", "quint8"},
    DTypeInfo{DType::qint32, 32, "qint32", "", "qint32"},
    DTypeInfo{DType::quint4x2, 8, "quint4x2", "", "quint4x2"},
    DTypeInfo{DType::quint2x4, 8, "quint2x4", "", "quint2x4"},
    DTypeInfo{DType::bits8, 8, "bits8", "", "bits8"},
    DTypeInfo{DType::bits16, 16, "bits16", "", "bits16"},
    DTypeInfo{DType::bits1x8, 8, "bits1x8", "", "bits1x8"},
    DTypeInfo{DType::bits2x4, 8, "bits2x4", "", "bits2x4"},
    DTypeInfo{DType::bits4x2, 8, "bits4x2", "", "bits4x2"},
};

std::optional<DType> find(std::string_view DTypeInfo::*spelling, std::string_view text) {
    const auto* row = std::ranges::find(table, text, spelling);
    if (text.empty() || row == table.end()) return std::nullopt;
    return row->dtype;
}

}  // namespace

std::span<const DTypeInfo> dtypes() { return table; }

const DTypeInfo& info(DType dtype) { return table[static_cast<std::size_t>(dtype)]; }

std::optional<DType> dtype_by_name(std::string_view text) { return find(&DTypeInfo::name, text); }
std::optional<DType> dtype_by_safetensors(std::string_view text) { return find(&DTypeInfo::safetensors, text); }
std::optional<DType> dtype_by_torch(std::string_view text) { return find(&DTypeInfo::torch, text); }

}  // namespace tpx
