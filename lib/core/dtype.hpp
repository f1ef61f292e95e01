// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tpx {

/// Every element type that torch or safetensors can store. Quantized torch types are listed so that they can be
/// rejected by name.
enum class DType : std::uint8_t {
    boolean,
    u8,
    i8,
    u16,
    i16,
    u32,
    i32,
    u64,
    i64,
    f16,
    bf16,
    f32,
    f64,
    c32,
    c64,
    c128,
    f8_e5m2,
    f8_e4m3,
    f8_e8m0,
    f8_e4m3fnuz,
    f8_e5m2fnuz,
    f4,
    f6_e2m3,
    f6_e3m2,
    f4_x2,  ///< torch.float4_e2m1fn_x2: each element is a byte that contains two values
    qint8,
    quint8,
    qint32,
    quint4x2,
    quint2x4,
    bits8,
    bits16,
    bits1x8,
    bits2x4,
    bits4x2
};

/// The three spellings of one dtype; an empty one means that the library has no such type.
struct DTypeInfo {
    DType dtype;
    int bits;                      ///< of one element
    std::string_view name;         ///< tpx's own: "bf16"
    std::string_view safetensors;  ///< "BF16"
    std::string_view torch;        ///< "bfloat16"
};

std::span<const DTypeInfo> dtypes();
const DTypeInfo& info(DType dtype);

inline std::string_view name(DType dtype) { return info(dtype).name; }

/// Bytes of one element; 0 for types smaller than a byte (f4, f6), which cannot be split.
inline int itemsize(DType dtype) { return info(dtype).bits % 8 == 0 ? info(dtype).bits / 8 : 0; }

/// Pairs of numbers, the real part first.
constexpr bool is_complex(DType dtype) { return dtype == DType::c32 || dtype == DType::c64 || dtype == DType::c128; }

/// Floating-point numbers with which torch computes; their highest bit is the sign and nothing else.
constexpr bool is_real(DType dtype) {
    return dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64;
}

std::optional<DType> dtype_by_name(std::string_view name);
std::optional<DType> dtype_by_safetensors(std::string_view name);
std::optional<DType> dtype_by_torch(std::string_view name);

}  // namespace tpx
