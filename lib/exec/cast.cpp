// SPDX-License-Identifier: Apache-2.0
#include "lib/core/error.hpp"
#include "lib/exec/copy_elements.hpp"
#include "lib/exec/device/element.hpp"
#include "lib/exec/walk.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace tpx {
namespace {

using element::Bfloat;
using element::E4m3;
using element::E5m2;
using element::Half;
using element::narrow;
using element::widen;

// To float by "round to odd": inexact values keep an odd last bit, so that rounding once more to a narrower type rounds
// as if from the double itself.
inline float to_odd(double value) {
    const auto nearest = static_cast<float>(value);
    const auto back = static_cast<double>(nearest);
    if (back == value || value != value) return nearest;
    auto bits = std::bit_cast<std::uint32_t>(nearest);
    if (std::fabs(back) > std::fabs(value)) --bits;
    return std::bit_cast<float>(bits | 1);
}

inline float single(float value) { return value; }
inline float single(double value) { return to_odd(value); }

template <class To, class From>
To convert(From value) {
    const auto wide = widen(value);
    if constexpr (std::is_arithmetic_v<To>)
        return static_cast<To>(wide);
    else
        return narrow<To>(single(wide));
}

template <class T>
constexpr double largest = std::numeric_limits<T>::max();
template <>
constexpr double largest<Bfloat> = 0x1.fep127;
template <>
constexpr double largest<Half> = 65504;
template <>
constexpr double largest<E5m2> = 57344;
template <>
constexpr double largest<E4m3> = 448;

/// Returns whether `To` cannot represent a value, as element::overflows() has it.
template <class To, class From>
bool convert_items(const WalkAxis& axis, const std::byte* source, std::byte* target) {
    std::uint32_t overflowed = 0;
    const auto item = [&](const std::byte* from, std::byte* to) {
        From value;
        std::memcpy(&value, from, sizeof value);
        const To converted = convert<To>(value);
        if constexpr (largest<To> < largest<From>)
            overflowed |= static_cast<std::uint32_t>(element::overflows(value, converted));
        std::memcpy(to, &converted, sizeof converted);
    };
    if (axis.source == sizeof(From) && axis.target == sizeof(To)) {
        // The same with constant strides, so that the compiler can vectorize the loop.
        for (Index k = 0; k < axis.count; ++k) item(source + k * Index{sizeof(From)}, target + k * Index{sizeof(To)});
    } else {
        for (Index k = 0; k < axis.count; ++k) item(source + k * axis.source, target + k * axis.target);
    }
    return overflowed != 0;
}

using Convert = bool (*)(const WalkAxis&, const std::byte*, std::byte*);

template <class From>
Convert converter(DType to) {
    switch (to) {
        case DType::f64:
            return convert_items<double, From>;
        case DType::f32:
            return convert_items<float, From>;
        case DType::f16:
            return convert_items<Half, From>;
        case DType::bf16:
            return convert_items<Bfloat, From>;
        case DType::f8_e4m3:
            return convert_items<E4m3, From>;
        case DType::f8_e5m2:
            return convert_items<E5m2, From>;
        default:
            return nullptr;
    }
}

Convert converter(DType from, DType to) {
    switch (from) {
        case DType::f64:
            return converter<double>(to);
        case DType::f32:
            return converter<float>(to);
        case DType::f16:
            return converter<Half>(to);
        case DType::bf16:
            return converter<Bfloat>(to);
        case DType::f8_e4m3:
            return converter<E4m3>(to);
        case DType::f8_e5m2:
            return converter<E5m2>(to);
        default:
            return nullptr;
    }
}

}  // namespace

bool can_cast(DType from, DType to) { return from == to ? itemsize(from) > 0 : converter(from, to) != nullptr; }

bool cast_elements(const Shape& sizes, const std::byte* source, const Strides& source_strides, DType from,
                   std::byte* target, const Strides& target_strides, DType to) {
    if (!can_cast(from, to)) throw failure("cannot cast {} to {}", name(from), name(to));
    if (from == to) {
        copy_elements(sizes, source, source_strides, target, target_strides, itemsize(from));
        return false;
    }
    if (volume(sizes) == 0) return false;
    Tuple<WalkAxis> axes = walk_axes(sizes, source_strides, target_strides);
    if (axes.empty()) axes.push_back({1, 0, 0});
    const WalkAxis inner = axes[axes.size() - 1];
    Tuple<WalkAxis> outer;
    for (int k = 0; k < axes.size() - 1; ++k) outer.push_back(axes[k]);
    const Convert convert_row = converter(from, to);
    bool overflowed = false;
    walk(outer, source, target,
         [&](const std::byte* row, std::byte* to_row) { overflowed |= convert_row(inner, row, to_row); });
    return overflowed;
}

}  // namespace tpx
