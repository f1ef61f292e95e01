// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"

#include <array>
#include <cassert>
#include <initializer_list>
#include <string>

namespace tpx {

/// The most axes a tensor, stored or canonical, may have.
inline constexpr int max_rank = 8;

/// A short list of at most `max_rank` values, kept in place: a million of them cost no allocation.
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

/// The sizes of `box`.
Shape sizes(const Box& box);

/// How many elements `box` has; 1 for rank 0. Precondition: the product fits (see checked_volume).
Index volume(const Box& box);
Index volume(const Shape& shape);

/// The number of elements of `shape`, or -1 when a dimension is negative or any partial product exceeds 2^63-1.
Index checked_volume(const Shape& shape);

/// What `a` and `b`, of equal rank, share on each axis; empty (some axis empty) when they are disjoint.
Box intersect(const Box& a, const Box& b);

bool empty(const Box& box);
bool contains(const Box& outer, const Box& inner);

/// Element strides of a C-order (row-major) array of `shape`.
Strides row_major(const Shape& shape);

/// Whether elements with these strides lie in C order without gaps; strides of axes of one element or none are free.
bool is_row_major(const Shape& shape, const Strides& strides);

/// "[4, 36]" and "[0:2, 4:8]", for messages.
std::string to_string(const Shape& shape);
std::string to_string(const Box& box);

}  // namespace tpx
