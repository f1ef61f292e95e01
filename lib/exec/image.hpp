// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"

#include <cstdint>

namespace tpx {

/// The most memory that placing an image takes in addition to Image::memory().
inline constexpr std::uint64_t image_slack = 8192;

/// A part of a piece as bytes of its file: runs of equal length, enumerated by axes. In memory, the runs are either as
/// stored, with the bytes between them, or packed, one run after another.
struct Image {
    struct Axis {
        Index count = 1;
        std::uint64_t stride = 0;  ///< bytes in the file
    };

    std::uint32_t file = 0;
    std::uint64_t begin = 0;  ///< first byte in the file
    std::uint64_t end = 0;    ///< one after the last
    std::uint64_t bytes = 0;  ///< of all runs together
    std::uint64_t run = 0;    ///< bytes of one run
    Tuple<Axis> axes;         ///< of the runs, in descending order of strides; no count is 1
    Tuple<Index> first;       ///< index of the element at `begin` in the tensor
    Strides stored;           ///< bytes between neighbors on each axis of the tensor, as stored
    Strides packed;           ///< the same when packed
    bool pack = false;

    bool is_run() const { return axes.empty(); }
    std::uint64_t memory() const { return pack ? bytes : end - begin; }
    const Strides& strides() const { return pack ? packed : stored; }
};

/// The image of `box`, as stored. Precondition: `box` is not empty and is within the piece.
Image image_of(const Piece& piece, int itemsize, const Box& box);

/// Packs the image unless its runs are short and close to each other: then it is faster to read them with the bytes
/// between them, and to write them together with images that fill the gaps.
void choose_packing(Image& image);

/// Calls `visit(offset in the file)` for each run, in the order in which packed runs follow each other.
template <class Visit>
void for_each_run(const Image& image, Visit&& visit) {
    Tuple<Index> index(image.axes.size());
    std::uint64_t offset = image.begin;
    for (;;) {
        visit(offset);
        int k = image.axes.size() - 1;
        for (; k >= 0 && index[k] + 1 == image.axes[k].count; --k) {
            offset -= static_cast<std::uint64_t>(index[k]) * image.axes[k].stride;
            index[k] = 0;
        }
        if (k < 0) return;
        ++index[k];
        offset += image.axes[k].stride;
    }
}

/// The offset of the first element of `box` in an image in memory, in bytes from the first element of the image.
Index place_in(const Image& image, const Box& box);

/// The smallest box that contains both.
Box bounding(const Box& a, const Box& b);

}  // namespace tpx
