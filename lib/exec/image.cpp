// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/image.hpp"

#include <algorithm>

namespace tpx {
namespace {

// Reading a gap of up to this many bytes is faster than a disk seek.
constexpr std::uint64_t short_gap = 65536;

// Runs of at least this many bytes are read and written one by one, so that no unneeded byte is read.
constexpr std::uint64_t long_run = 4096;

using Order = Tuple<int>;

// The axes of more than one element in descending order of strides.
Order order_in_file(const Shape& extent, const Strides& strides) {
    Order order;
    for (int k = 0; k < extent.size(); ++k) {
        if (extent[k] != 1) order.push_back(k);
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return strides[a] > strides[b]; });
    return order;
}

void add_runs(Image& image, const Shape& extent, const Order& order) {
    Tuple<Image::Axis> inner_first;
    for (int i = order.size() - 1; i >= 0; --i) {
        const Image::Axis axis{extent[order[i]], static_cast<std::uint64_t>(image.stored[order[i]])};
        if (inner_first.empty() && axis.stride == image.run) {
            image.run *= static_cast<std::uint64_t>(axis.count);
        } else {
            inner_first.push_back(axis);
        }
    }
    for (int i = inner_first.size() - 1; i >= 0; --i) image.axes.push_back(inner_first[i]);
}

std::uint64_t largest_gap(const Image& image) {
    std::uint64_t largest = 0;
    std::uint64_t inner = image.run;
    for (int k = image.axes.size() - 1; k >= 0; --k) {
        const Image::Axis& axis = image.axes[k];
        if (axis.stride > inner) largest = std::max(largest, axis.stride - inner);
        inner += static_cast<std::uint64_t>(axis.count - 1) * axis.stride;
    }
    return largest;
}

}  // namespace

Image image_of(const Piece& piece, int itemsize, const Box& box) {
    const Shape extent = sizes(box);
    Image image;
    image.file = piece.file;
    image.run = static_cast<std::uint64_t>(itemsize);
    image.bytes = static_cast<std::uint64_t>(volume(box) * itemsize);
    Index first = 0;
    Index last = 0;
    for (int k = 0; k < box.size(); ++k) {
        first += (box[k].begin - piece.box[k].begin) * piece.strides[k];
        last += (extent[k] - 1) * piece.strides[k];
        image.first.push_back(box[k].begin);
        image.stored.push_back(piece.strides[k] * itemsize);
    }
    image.begin = piece.offset + static_cast<std::uint64_t>(first * itemsize);
    image.end = image.begin + static_cast<std::uint64_t>((last + 1) * itemsize);

    const Order order = order_in_file(extent, piece.strides);
    image.packed = Strides(box.size());
    Index step = itemsize;
    for (int i = order.size() - 1; i >= 0; --i) {
        image.packed[order[i]] = step;
        step *= extent[order[i]];
    }
    add_runs(image, extent, order);
    return image;
}

void choose_packing(Image& image) {
    const bool wasteful = image.end - image.begin > 2 * image.bytes + short_gap;
    image.pack = !image.is_run() && (image.run >= long_run || wasteful || largest_gap(image) > short_gap);
}

Index place_in(const Image& image, const Box& box) {
    Index bytes = 0;
    for (int k = 0; k < box.size(); ++k) bytes += (box[k].begin - image.first[k]) * image.strides()[k];
    return bytes;
}

Box bounding(const Box& a, const Box& b) {
    Box box;
    for (int k = 0; k < a.size(); ++k) box.push_back({std::min(a[k].begin, b[k].begin), std::max(a[k].end, b[k].end)});
    return box;
}

}  // namespace tpx
