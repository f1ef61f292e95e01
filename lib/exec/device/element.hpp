// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

// Conversions between floating-point types, for the host and for GPUs: one definition, so that both have the same bits.
// nvcc needs --expt-relaxed-constexpr for std::bit_cast.
#ifdef __CUDACC__
#define TPX_HOST_DEVICE __host__ __device__
#else
#define TPX_HOST_DEVICE
#endif

namespace tpx::element {

/// IEEE half precision, bfloat16, FP8 E4M3 (without infinities) and FP8 E5M2 (with infinities) as their bits.
struct Half {
    std::uint16_t bits;
};
struct Bfloat {
    std::uint16_t bits;
};
struct E4m3 {
    std::uint8_t bits;
};
struct E5m2 {
    std::uint8_t bits;
};

inline constexpr std::uint32_t sign_bit = 0x80000000;
inline constexpr std::uint32_t infinity = 0x7f800000;

/// Whether a value is neither infinite nor NaN.
TPX_HOST_DEVICE inline bool is_finite(float value) {
    return (std::bit_cast<std::uint32_t>(value) & infinity) != infinity;
}
TPX_HOST_DEVICE inline bool is_finite(Half value) { return (value.bits & 0x7c00u) != 0x7c00u; }
TPX_HOST_DEVICE inline bool is_finite(Bfloat value) { return (value.bits & 0x7f80u) != 0x7f80u; }
TPX_HOST_DEVICE inline bool is_finite(E4m3 value) { return (value.bits & 0x7fu) != 0x7fu; }
TPX_HOST_DEVICE inline bool is_finite(E5m2 value) { return (value.bits & 0x7cu) != 0x7cu; }

TPX_HOST_DEVICE inline bool is_finite(double value) {
    constexpr std::uint64_t infinite = 0x7ff0000000000000;
    return (std::bit_cast<std::uint64_t>(value) & infinite) != infinite;
}

/// Whether a value is NaN.
TPX_HOST_DEVICE inline bool is_nan(double value) { return value != value; }
TPX_HOST_DEVICE inline bool is_nan(float value) { return value != value; }
TPX_HOST_DEVICE inline bool is_nan(Half value) { return (value.bits & 0x7fffu) > 0x7c00u; }
TPX_HOST_DEVICE inline bool is_nan(Bfloat value) { return (value.bits & 0x7fffu) > 0x7f80u; }
TPX_HOST_DEVICE inline bool is_nan(E4m3 value) { return (value.bits & 0x7fu) == 0x7fu; }
TPX_HOST_DEVICE inline bool is_nan(E5m2 value) { return (value.bits & 0x7fu) > 0x7cu; }

/// The value in a wider type, exactly.
TPX_HOST_DEVICE inline float widen(float value) { return value; }
TPX_HOST_DEVICE inline double widen(double value) { return value; }
TPX_HOST_DEVICE inline float widen(Bfloat value) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
TPX_HOST_DEVICE inline float widen(Half value) {
    const std::uint32_t magnitude = value.bits & 0x7fffu;
    const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
    // As a float with too small an exponent, then times 2^112: exact, and right for subnormal halves too.
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    const std::uint32_t special = magnitude >= 0x7c00 ? infinity : 0;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
}
TPX_HOST_DEVICE inline float widen(E4m3 value) {
    const std::uint32_t magnitude = value.bits & 0x7fu;
    const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x80u) << 24;
    const float scaled = std::bit_cast<float>(magnitude << 20) * 0x1p120f;
    const std::uint32_t bits = magnitude == 0x7f ? 0x7fc00000 : std::bit_cast<std::uint32_t>(scaled);
    return std::bit_cast<float>(bits | sign);
}

/// An E5M2 is the upper byte of a half.
TPX_HOST_DEVICE inline float widen(E5m2 value) { return widen(Half{static_cast<std::uint16_t>(value.bits << 8)}); }

/// The nearest bfloat16, ties to even; a NaN stays a quiet NaN.
TPX_HOST_DEVICE inline Bfloat to_bfloat(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    const std::uint32_t quiet = bits | 0x400000;
    return {static_cast<std::uint16_t>(((bits & ~sign_bit) > infinity ? quiet : rounded) >> 16)};
}

/// The nearest half, ties to even; a NaN stays a quiet NaN.
TPX_HOST_DEVICE inline Half to_half(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & ~sign_bit;
    // Below 2^-14 the addition of a half rounds to the multiples of 2^-24 that subnormal halves are.
    const std::uint32_t tiny = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
    const std::uint32_t normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    const std::uint32_t special = magnitude > infinity ? (0x7e00 | (magnitude >> 13 & 0x3ff)) : 0x7c00;
    const std::uint32_t half = magnitude < 0x38800000 ? tiny : magnitude < 0x47800000 ? normal : special;
    return {static_cast<std::uint16_t>(half | (bits & sign_bit) >> 16)};
}

/// The nearest E4M3, ties to even; NaN for infinities and for values above 464, which would round beyond 448.
TPX_HOST_DEVICE inline E4m3 to_e4m3(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & ~sign_bit;
    // Below 2^-6 the addition of 2^14 rounds to the multiples of 2^-9 that subnormals are.
    const std::uint32_t tiny = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14f) - 0x46800000;
    const std::uint32_t normal = (magnitude - 0x3c000000 + 0x7ffff + (magnitude >> 20 & 1)) >> 20;
    const std::uint32_t code = magnitude < 0x3c800000 ? tiny : magnitude < 0x43f00000 ? normal : 0x7f;
    return {static_cast<std::uint8_t>(code | (bits & sign_bit) >> 24)};
}

/// The nearest E5M2, ties to even; infinity for values that would round to more than 57344; a NaN stays a NaN.
TPX_HOST_DEVICE inline E5m2 to_e5m2(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & ~sign_bit;
    // Below 2^-14 the addition of 2^7 rounds to the multiples of 2^-16 that subnormals are.
    const std::uint32_t tiny = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0x1p7f) - 0x43000000;
    const std::uint32_t normal = (magnitude - 0x38000000 + 0xfffff + (magnitude >> 21 & 1)) >> 21;
    const std::uint32_t special = magnitude > infinity ? 0x7f : 0x7c;
    const std::uint32_t code = magnitude < 0x38800000 ? tiny : magnitude < 0x47700000 ? normal : special;
    return {static_cast<std::uint8_t>(code | (bits & sign_bit) >> 24)};
}

/// A float as another type.
template <class To>
TPX_HOST_DEVICE To narrow(float value);
template <>
TPX_HOST_DEVICE inline float narrow<float>(float value) {
    return value;
}
template <>
TPX_HOST_DEVICE inline Bfloat narrow<Bfloat>(float value) {
    return to_bfloat(value);
}
template <>
TPX_HOST_DEVICE inline Half narrow<Half>(float value) {
    return to_half(value);
}
template <>
TPX_HOST_DEVICE inline E4m3 narrow<E4m3>(float value) {
    return to_e4m3(value);
}
template <>
TPX_HOST_DEVICE inline E5m2 narrow<E5m2>(float value) {
    return to_e5m2(value);
}

/// Whether `To` cannot represent `value`, whose cast to it is `narrowed`: a finite value became infinite, or an
/// infinite or finite one became the NaN of E4M3, which has no infinity. Has no branches, so that loops vectorize.
template <class To, class From>
TPX_HOST_DEVICE bool overflows(From value, To narrowed) {
    if constexpr (std::is_same_v<To, E4m3>)
        return is_nan(narrowed) & !is_nan(value);
    else
        return !is_finite(narrowed) & is_finite(value);
}

}  // namespace tpx::element
