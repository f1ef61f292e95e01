// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/copy_elements.hpp"

#include "lib/exec/walk.hpp"

#include <array>
#include <cstring>

namespace tpx {
namespace {

// The loops over the two innermost axes: rows of runs, or a transpose.
struct Plane {
    WalkAxis outer;
    WalkAxis inner;
};

// glibc's memcpy is slow between 1 and 2 KiB, where this loop is not; for larger sizes, memcpy is as fast.
inline void copy_run(std::byte* target, const std::byte* source, std::size_t size) {
    constexpr std::size_t block = 64;
    if (size > 4096) {
        std::memcpy(target, source, size);
        return;
    }
    for (; size >= block; size -= block, source += block, target += block) std::memcpy(target, source, block);
    if (size != 0) std::memcpy(target, source, size);
}

template <std::size_t Size>
void copy_items(const WalkAxis& axis, const std::byte* source, std::byte* target) {
    for (Index k = 0; k < axis.count; ++k) std::memcpy(target + k * axis.target, source + k * axis.source, Size);
}

// Transposes a square whose rows are contiguous in the source and whose columns are contiguous in the target. Its rows
// are far apart, often in the same cache set, so each is fetched once.
template <std::size_t Size, Index Side>
void transpose_square(const Plane& plane, const std::byte* source, std::byte* target) {
    std::array<std::byte, Side * Side * Size> square;
    for (Index j = 0; j < Side; ++j)
        std::memcpy(&square[j * Side * Size], source + j * plane.inner.source, Side * Size);
    for (Index i = 0; i < Side; ++i) {
        std::array<std::byte, Side * Size> column;
        for (Index j = 0; j < Side; ++j) std::memcpy(&column[j * Size], &square[(j * Side + i) * Size], Size);
        std::memcpy(target + i * plane.outer.target, column.data(), column.size());
    }
}

// Visits the plane in squares that stay in the L1 cache, because neighbors are far apart on one side.
template <std::size_t Size>
void copy_plane(const Plane& plane, const std::byte* source, std::byte* target) {
    constexpr Index side = Size < 4 ? 32 : Size < 16 ? 64 / Size : 8;
    const auto& [outer, inner] = plane;
    const bool transposed = outer.source == Size && inner.target == Size;
    for (Index i = 0; i < outer.count; i += side) {
        const Index height = std::min(side, outer.count - i);
        for (Index j = 0; j < inner.count; j += side) {
            const WalkAxis part{std::min(side, inner.count - j), inner.source, inner.target};
            const std::byte* from = source + i * outer.source + j * inner.source;
            std::byte* to = target + i * outer.target + j * inner.target;
            if (transposed && height == side && part.count == side) {
                transpose_square<Size, side>(plane, from, to);
                continue;
            }
            for (Index row = 0; row < height; ++row)
                copy_items<Size>(part, from + row * outer.source, to + row * outer.target);
        }
    }
}

template <std::size_t Size>
void copy_scattered(const Tuple<WalkAxis>& axes, const std::byte* source, std::byte* target) {
    // The second axis of the squares is the one along which the source is densest.
    int dense = 0;
    for (int k = 0; k < axes.size() - 1; ++k) {
        if (axes[k].source < axes[dense].source) dense = k;
    }
    Plane plane{{}, axes[axes.size() - 1]};
    if (axes.size() > 1) plane.outer = axes[dense];
    Tuple<WalkAxis> rest;
    for (int k = 0; k < axes.size() - 1; ++k) {
        if (k != dense) rest.push_back(axes[k]);
    }
    walk(rest, source, target, [&](const std::byte* from, std::byte* to) { copy_plane<Size>(plane, from, to); });
}

void copy_runs(const Tuple<WalkAxis>& axes, std::size_t size, const std::byte* source, std::byte* target) {
    if (axes.empty()) {
        std::memcpy(target, source, size);
        return;
    }
    Tuple<WalkAxis> outer;
    for (int k = 0; k < axes.size() - 1; ++k) outer.push_back(axes[k]);
    const WalkAxis rows = axes[axes.size() - 1];
    walk(outer, source, target, [&](const std::byte* from, std::byte* to) {
        for (Index k = 0; k < rows.count; ++k) copy_run(to + k * rows.target, from + k * rows.source, size);
    });
}

}  // namespace

void copy_elements(const Shape& sizes, const std::byte* source, const Strides& source_strides, std::byte* target,
                   const Strides& target_strides, int itemsize) {
    if (volume(sizes) == 0) return;
    const Tuple<WalkAxis> axes = walk_axes(sizes, source_strides, target_strides);
    const int last = axes.size() - 1;
    if (axes.empty()) return copy_runs(axes, static_cast<std::size_t>(itemsize), source, target);
    if (axes[last].source == itemsize && axes[last].target == itemsize) {
        Tuple<WalkAxis> outer;
        for (int k = 0; k < last; ++k) outer.push_back(axes[k]);
        return copy_runs(outer, static_cast<std::size_t>(axes[last].count * itemsize), source, target);
    }
    switch (itemsize) {
        case 1:
            return copy_scattered<1>(axes, source, target);
        case 2:
            return copy_scattered<2>(axes, source, target);
        case 4:
            return copy_scattered<4>(axes, source, target);
        case 8:
            return copy_scattered<8>(axes, source, target);
        case 16:
            return copy_scattered<16>(axes, source, target);
        default:
            return copy_runs(axes, static_cast<std::size_t>(itemsize), source, target);
    }
}

}  // namespace tpx
