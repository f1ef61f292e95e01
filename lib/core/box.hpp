// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"

#include <array>
#include <cassert>
#include <initializer_list>
#include <string>

namespace tpx {

/// The largest number of axes of a tensor, stored or canonical.
inline constexpr int max_rank = 8;

/// A list of at most `max_rank` values, stored inline: creating one allocates no memory.
template <class T>
class Tuple {
public:
    constexpr Tuple() = default;
    constexpr Tuple(std::initializer_list<T> values) {
        for (const T& value : values) push_back(value);
    }
    constexpr explicit Tuple(int size, T value = {}) : size_{size} {
        assert(size <= max_rank);
        for (int i = 0; i < size; ++i) items_[i] = value;
    }

    constexpr int size() const { return size_; }
    constexpr bool empty() const { return size_ == 0; }
    constexpr void push_back(T value) {
        assert(size_ < max_rank);
        items_[size_++] = value;
    }
    constexpr T& operator[](int i) { return items_[i]; }
    constexpr const T& operator[](int i) const { return items_[i]; }
    constexpr T* begin() { return items_.data(); }
    constexpr T* end() { return items_.data() + size_; }
    constexpr const T* begin() const { return items_.data(); }
    constexpr const T* end() const { return items_.data() + size_; }

    friend constexpr bool operator==(const Tuple& a, const Tuple& b) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }
    friend constexpr auto operator<=>(const Tuple& a, const Tuple& b) {
        return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
    }

private:
    std::array<T, max_rank> items_{};
    int size_ = 0;
};

using Shape = Tuple<Index>;
using Strides = Tuple<Index>;

/// An interval on each axis. A box of rank 0 is one element, a scalar.
using Box = Tuple<Interval>;

/// The box that covers `shape`.
Box whole(const Shape& shape);

/// The size of `box` on each axis.
Shape sizes(const Box& box);

/// The number of elements of `box`; 1 for rank 0. Precondition: the product fits (see checked_volume).
Index volume(const Box& box);
Index volume(const Shape& shape);

/// The number of elements of `shape`, or -1 when a dimension is negative or any partial product exceeds 2^63-1.
Index checked_volume(const Shape& shape);

/// The intersection of `a` and `b`, which have equal rank; empty (on some axis) when they are disjoint.
Box intersect(const Box& a, const Box& b);

bool empty(const Box& box);
bool contains(const Box& outer, const Box& inner);

/// Element strides of a C-order (row-major) array of `shape`.
Strides row_major(const Shape& shape);

/// Whether elements with these strides are in C order without gaps; axes of fewer than two elements may have any
/// stride.
bool is_row_major(const Shape& shape, const Strides& strides);

/// Text for messages: "[4, 36]" for a shape, "[0:2, 4:8]" for a box.
std::string to_string(const Shape& shape);
std::string to_string(const Box& box);

}  // namespace tpx
