// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/device/element.hpp"

#include <cstddef>
#include <cstdint>

// The walk of a strided copy, for the host and for GPUs: what a kernel does with an item, tests on the host verify.
namespace tpx {

/// Division by a number that is known beforehand, as a multiplication. Exact for dividends below 2^31.
struct Divisor {
    std::uint32_t by = 1;
    std::uint32_t factor = 1;
    std::uint32_t shift = 0;

    TPX_HOST_DEVICE std::uint32_t quotient(std::uint32_t value) const {
        const auto high = static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) * factor >> 32);
        return (high + value) >> shift;
    }
};

/// Types between which strided copies convert.
enum class Element : std::uint8_t { f32, bf16, f16, f8_e4m3, f8_e5m2 };

/// A box of elements that is copied from one place in memory to another, item by item. An item is 1, 2, 4, 8 or 16
/// bytes where the type stays the same; otherwise one element, or as many as are 16 bytes in the wider type.
struct StridedCopy {
    struct Axis {
        Divisor count;
        std::int64_t source;  ///< bytes between neighbors
        std::int64_t target;
    };
    static constexpr int max_axes = 9;  // of a tensor, and one more for the items of a run
    static constexpr std::uint32_t max_items = 0x7fffffff;
    static constexpr std::uint32_t tile_items = 4096;  ///< that one block of threads copies

    const std::byte* source = nullptr;
    std::byte* target = nullptr;
    std::uint32_t items = 0;
    std::uint32_t first_tile = 0;  ///< in the batch
    std::uint8_t unit = 1;         ///< bytes of an item; if types differ, elements of an item
    Element from = Element::f32;
    Element to = Element::f32;
    std::int8_t axes = 0;
    std::uint32_t* overflow = nullptr;  ///< set to 1 if element::overflows() a cast; null: nothing is
    Axis axis[max_axes];                ///< the innermost one is the last
};

namespace copying {

struct Offsets {
    std::int64_t source;
    std::int64_t target;
};

/// Where item number `item` is.
TPX_HOST_DEVICE inline Offsets offsets_of(const StridedCopy& copy, std::uint32_t item) {
    Offsets at{0, 0};
    for (int k = copy.axes - 1; k >= 0; --k) {
        const StridedCopy::Axis& axis = copy.axis[k];
        const std::uint32_t rest = k == 0 ? 0 : axis.count.quotient(item);
        const std::int64_t index = item - rest * axis.count.by;
        at.source += index * axis.source;
        at.target += index * axis.target;
        item = rest;
    }
    return at;
}

/// `Count` neighbors that are loaded and stored at once.
template <class Value, int Count>
struct alignas(sizeof(Value) * Count) [[gnu::may_alias]] Run {
    Value values[Count];
};

template <class Value, int Count>
struct CopyRun {
    TPX_HOST_DEVICE void operator()(const std::byte* source, std::byte* target) const {
        *reinterpret_cast<Run<Value, Count>*>(target) = *reinterpret_cast<const Run<Value, Count>*>(source);
    }
};

template <class From, class To, int Count>
struct CastRun {
    std::uint32_t* overflow;

    TPX_HOST_DEVICE void operator()(const std::byte* source, std::byte* target) const {
        const auto from = *reinterpret_cast<const Run<From, Count>*>(source);
        Run<To, Count> to;
        bool overflows = false;
        for (int k = 0; k < Count; ++k) {
            to.values[k] = element::narrow<To>(element::widen(from.values[k]));
            overflows |= element::overflows(from.values[k], to.values[k]);
        }
        if (overflows && overflow != nullptr) *overflow = 1;  // several threads may, with the same value
        *reinterpret_cast<Run<To, Count>*>(target) = to;
    }
};

/// What one thread does: every `step`-th item from `begin` on.
template <class Item>
TPX_HOST_DEVICE void visit(const StridedCopy& copy, std::uint32_t begin, std::uint32_t end, std::uint32_t step,
                           Item item) {
    for (std::uint32_t k = begin; k < end; k += step) {
        const Offsets at = offsets_of(copy, k);
        item(copy.source + at.source, copy.target + at.target);
    }
}

template <class From, class To>
TPX_HOST_DEVICE void cast_items(const StridedCopy& copy, std::uint32_t begin, std::uint32_t end, std::uint32_t step) {
    constexpr int full = 16 / (sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To));
    if (copy.unit == full)
        visit(copy, begin, end, step, CastRun<From, To, full>{copy.overflow});
    else
        visit(copy, begin, end, step, CastRun<From, To, 1>{copy.overflow});
}

template <class From>
TPX_HOST_DEVICE void cast_items_from(const StridedCopy& copy, std::uint32_t begin, std::uint32_t end,
                                     std::uint32_t step) {
    switch (copy.to) {
        case Element::f32:
            return cast_items<From, float>(copy, begin, end, step);
        case Element::bf16:
            return cast_items<From, element::Bfloat>(copy, begin, end, step);
        case Element::f16:
            return cast_items<From, element::Half>(copy, begin, end, step);
        case Element::f8_e4m3:
            return cast_items<From, element::E4m3>(copy, begin, end, step);
        case Element::f8_e5m2:
            return cast_items<From, element::E5m2>(copy, begin, end, step);
    }
}

}  // namespace copying

/// Copies every `step`-th item from `begin` up to `end`; the types are the same.
TPX_HOST_DEVICE inline void copy_items(const StridedCopy& copy, std::uint32_t begin, std::uint32_t end,
                                       std::uint32_t step) {
    using copying::CopyRun;
    switch (copy.unit) {
        case 1:
            return copying::visit(copy, begin, end, step, CopyRun<std::uint8_t, 1>{});
        case 2:
            return copying::visit(copy, begin, end, step, CopyRun<std::uint16_t, 1>{});
        case 4:
            return copying::visit(copy, begin, end, step, CopyRun<std::uint32_t, 1>{});
        case 8:
            return copying::visit(copy, begin, end, step, CopyRun<std::uint32_t, 2>{});
        default:
            return copying::visit(copy, begin, end, step, CopyRun<std::uint32_t, 4>{});
    }
}

/// The same where the types differ.
TPX_HOST_DEVICE inline void cast_items(const StridedCopy& copy, std::uint32_t begin, std::uint32_t end,
                                       std::uint32_t step) {
    switch (copy.from) {
        case Element::f32:
            return copying::cast_items_from<float>(copy, begin, end, step);
        case Element::bf16:
            return copying::cast_items_from<element::Bfloat>(copy, begin, end, step);
        case Element::f16:
            return copying::cast_items_from<element::Half>(copy, begin, end, step);
        case Element::f8_e4m3:
            return copying::cast_items_from<element::E4m3>(copy, begin, end, step);
        case Element::f8_e5m2:
            return copying::cast_items_from<element::E5m2>(copy, begin, end, step);
    }
}

/// The copy to which tile number `tile` of a batch of `count` copies belongs.
TPX_HOST_DEVICE inline const StridedCopy& copy_of_tile(const StridedCopy* batch, std::uint32_t count,
                                                       std::uint32_t tile) {
    std::uint32_t low = 0;
    for (std::uint32_t high = count; high - low > 1;) {
        const std::uint32_t middle = low + (high - low) / 2;
        (batch[middle].first_tile <= tile ? low : high) = middle;
    }
    return batch[low];
}

/// What thread `thread` of the `threads` of a block does with tile number `tile` of a batch: a kernel.
template <void (*Items)(const StridedCopy&, std::uint32_t, std::uint32_t, std::uint32_t)>
TPX_HOST_DEVICE void run_tile(const StridedCopy* batch, std::uint32_t count, std::uint32_t tile, std::uint32_t thread,
                              std::uint32_t threads) {
    const StridedCopy& copy = copy_of_tile(batch, count, tile);
    const std::uint32_t begin = (tile - copy.first_tile) * StridedCopy::tile_items;
    const std::uint32_t left = copy.items - begin;
    const std::uint32_t end = begin + (left < StridedCopy::tile_items ? left : StridedCopy::tile_items);
    Items(copy, begin + thread, end, threads);
}

}  // namespace tpx
