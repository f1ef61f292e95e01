// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/device/copy_batch.hpp"

#include "lib/core/error.hpp"
#include "lib/exec/walk.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

namespace tpx {
namespace {

constexpr Index widest_item = 16;  // bytes that a thread of a GPU loads at once

std::optional<Element> element_of(DType dtype) {
    switch (dtype) {
        case DType::f32:
            return Element::f32;
        case DType::bf16:
            return Element::bf16;
        case DType::f16:
            return Element::f16;
        case DType::f8_e4m3:
            return Element::f8_e4m3;
        case DType::f8_e5m2:
            return Element::f8_e5m2;
        default:
            return std::nullopt;
    }
}

/// See "Division by Invariant Integers using Multiplication" by Granlund and Montgomery.
Divisor divisor(Index by) {
    const auto value = static_cast<std::uint64_t>(by);
    const auto shift = static_cast<std::uint32_t>(std::bit_width(value - 1));
    const std::uint64_t factor = (std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - value) / value + 1;
    return {static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(factor), shift};
}

/// A copy before it is cut into items.
struct Walk {
    Tuple<WalkAxis> axes;
    const std::byte* source;
    std::byte* target;
};

/// Whether addresses and strides are multiples of these numbers of bytes.
bool is_aligned(const Walk& walk, Index source, Index target) {
    const auto fits = [](Index value, Index to) { return value % to == 0; };
    return fits(static_cast<Index>(reinterpret_cast<std::uintptr_t>(walk.source)), source) &&
           fits(static_cast<Index>(reinterpret_cast<std::uintptr_t>(walk.target)), target) &&
           std::ranges::all_of(
               walk.axes, [&](const WalkAxis& axis) { return fits(axis.source, source) && fits(axis.target, target); });
}

/// Takes away the innermost axis if its neighbors follow each other on both sides. Returns its count, or 1.
Index take_run(Walk& walk, Index source, Index target) {
    const int last = walk.axes.size() - 1;
    if (last < 0 || walk.axes[last].source != source || walk.axes[last].target != target) return 1;
    const Index count = walk.axes[last].count;
    Tuple<WalkAxis> outer;
    for (int k = 0; k < last; ++k) outer.push_back(walk.axes[k]);
    walk.axes = outer;
    return count;
}

void add_items(CopyList& list, const Walk& walk, const WalkAxis& inner, StridedCopy copy) {
    Index items = inner.count;
    for (const WalkAxis& axis : walk.axes) items *= axis.count;
    if (items > StridedCopy::max_items) {  // two halves of the longest axis
        int longest = -1;
        for (int k = 0; k < walk.axes.size(); ++k)
            if (walk.axes[k].count > (longest < 0 ? inner.count : walk.axes[longest].count)) longest = k;
        Walk one = walk, other = walk;
        WalkAxis one_inner = inner, other_inner = inner;
        WalkAxis& first = longest < 0 ? one_inner : one.axes[longest];
        WalkAxis& second = longest < 0 ? other_inner : other.axes[longest];
        const Index half = first.count / 2;
        first.count = half;
        second.count -= half;
        other.source += half * first.source;
        other.target += half * first.target;
        add_items(list, one, one_inner, copy);
        add_items(list, other, other_inner, copy);
        return;
    }
    const std::uint64_t tiles =
        (static_cast<std::uint64_t>(items) + StridedCopy::tile_items - 1) / StridedCopy::tile_items;
    if (list.tiles + tiles > std::numeric_limits<std::int32_t>::max())
        throw failure("a batch of copies has more than {} tiles", std::numeric_limits<std::int32_t>::max());
    copy.source = walk.source;
    copy.target = walk.target;
    copy.items = static_cast<std::uint32_t>(items);
    copy.first_tile = list.tiles;
    for (const WalkAxis& axis : walk.axes) copy.axis[copy.axes++] = {divisor(axis.count), axis.source, axis.target};
    if (inner.count > 1) copy.axis[copy.axes++] = {divisor(inner.count), inner.source, inner.target};
    list.copies.push_back(copy);
    list.tiles += static_cast<std::uint32_t>(tiles);
}

}  // namespace

bool CopyBatch::supports(DType from, DType to) {
    if (from != to) return element_of(from) && element_of(to);
    return itemsize(from) > 0 && itemsize(from) <= widest_item && std::has_single_bit(unsigned(itemsize(from)));
}

void CopyBatch::add(const Shape& sizes, const std::byte* source, const Strides& source_strides, DType from,
                    std::byte* target, const Strides& target_strides, DType to) {
    if (!supports(from, to)) throw failure("a GPU cannot cast {} to {}", name(from), name(to));
    const Index elements = volume(sizes), read = itemsize(from), written = itemsize(to);
    if (elements == 0) return;
    bytes_ += static_cast<std::uint64_t>(elements * written);
    Walk walk{walk_axes(sizes, source_strides, target_strides), source, target};
    const Index run = take_run(walk, read, written);
    StridedCopy copy;
    if (from == to) {
        Index unit = widest_item;
        while (run * read % unit != 0 || !is_aligned(walk, unit, unit)) unit /= 2;
        copy.unit = static_cast<std::uint8_t>(unit);
        return add_items(plain_, walk, {run * read / unit, unit, unit}, copy);
    }
    const Index full = widest_item / std::max(read, written);
    const Index unit = run % full == 0 && is_aligned(walk, full * read, full * written) ? full : 1;
    copy.unit = static_cast<std::uint8_t>(unit);
    copy.overflow = overflow_;
    copy.from = *element_of(from);
    copy.to = *element_of(to);
    add_items(casts_, walk, {run / unit, unit * read, unit * written}, copy);
}

void run_on_host(const CopyBatch& batch) {
    const auto run = [](const CopyList& list, auto&& tile) {
        const auto count = static_cast<std::uint32_t>(list.copies.size());
        for (std::uint32_t k = 0; k < list.tiles; ++k) tile(list.copies.data(), count, k);
    };
    run(batch.plain(), [](const auto* copies, auto count, auto k) { run_tile<copy_items>(copies, count, k, 0, 1); });
    run(batch.casts(), [](const auto* copies, auto count, auto k) { run_tile<cast_items>(copies, count, k, 0, 1); });
}

}  // namespace tpx
