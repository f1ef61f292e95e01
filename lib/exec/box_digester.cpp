// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/box_digester.hpp"

#include "lib/exec/copy_elements.hpp"

#include <algorithm>

namespace tpx {
namespace {

constexpr std::uint64_t most_copied = std::uint64_t{256} << 10;

// Whether neighbors on the tensor's last axis are neighbors in memory.
bool has_long_rows(const Strides& strides, const Shape& extent, int item) {
    for (int k = extent.size() - 1; k >= 0; --k) {
        if (extent[k] != 1) return strides[k] == item;
    }
    return true;
}

Strides row_major_bytes(const Shape& extent, int item) {
    Strides strides = row_major(extent);
    for (Index& stride : strides) stride *= item;
    return strides;
}

}  // namespace

void BoxDigester::add(Digest& sum, const Shape& whole, const Box& box, const Image& image, const std::byte* at,
                      DType stored, DType dtype) {
    const int item = itemsize(dtype);
    const Strides& strides = image.strides();
    if (stored == dtype && has_long_rows(strides, sizes(box), item)) {
        Strides elements;
        for (Index stride : strides) elements.push_back(stride / item);
        return tpx::add(sum, whole, item, box, at + place_in(image, box), elements);
    }
    if (copy_.empty()) copy_.resize(most_copied);
    add_copies(sum, whole, item, box, [&](const Box& part, const Shape& extent) {
        cast_elements(extent, at + place_in(image, part), strides, stored, copy_.data(), row_major_bytes(extent, item),
                      dtype);
    });
}

// Adds `box` in parts small enough for dense copies, which `make` writes to copy_: an expanded tensor has many more
// elements than bytes.
template <class MakeCopy>
void BoxDigester::add_copies(Digest& sum, const Shape& whole, int item, const Box& box, const MakeCopy& make) {
    const Shape extent = sizes(box);
    if (static_cast<std::uint64_t>(volume(extent) * item) <= most_copied) {
        make(box, extent);
        return tpx::add(sum, whole, item, box, copy_.data());
    }
    const int axis = static_cast<int>(std::ranges::max_element(extent) - extent.begin());
    const Index middle = box[axis].begin + extent[axis] / 2;
    Box first = box, second = box;
    first[axis].end = second[axis].begin = middle;
    add_copies(sum, whole, item, first, make);
    add_copies(sum, whole, item, second, make);
}

}  // namespace tpx
