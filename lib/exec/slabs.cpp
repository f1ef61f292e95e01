// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/slabs.hpp"

#include "lib/exec/copy_elements.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace tpx {

Slabs::Slabs(const Shape& shape, Index most) : shape_{shape} {
    for (axis_ = shape.size(); axis_ > 0 && inner_ * shape[axis_ - 1] <= most;) inner_ *= shape[--axis_];
    if (axis_ == 0) return;
    rows_ = std::max<Index>(1, most / inner_);
    slabs_on_axis_ = (shape[axis_ - 1] + rows_ - 1) / rows_;
    count_ = slabs_on_axis_;
    for (int k = 0; k < axis_ - 1; ++k) count_ *= shape[k];
}

Box Slabs::operator[](Index slab) const {
    Box box = whole(shape_);
    if (axis_ == 0) return box;
    const Index begin = slab % slabs_on_axis_ * rows_;
    box[axis_ - 1] = {begin, std::min(begin + rows_, shape_[axis_ - 1])};
    slab /= slabs_on_axis_;
    for (int k = axis_ - 2; k >= 0; --k) {
        box[k] = {slab % shape_[k], slab % shape_[k] + 1};
        slab /= shape_[k];
    }
    return box;
}

std::uint64_t Slabs::position(const Box& slab) const {
    const Strides strides = row_major(shape_);
    std::uint64_t position = 0;
    for (int k = 0; k < slab.size(); ++k) position += static_cast<std::uint64_t>(slab[k].begin * strides[k]);
    return position;
}

SlabReader::SlabReader(const Tensor& tensor, std::vector<const Piece*> pieces, std::optional<DType> dtype,
                       SourceFiles& files, Arena& arena)
    : tensor_{tensor},
      dtype_{dtype && can_cast(tensor.dtype, *dtype) ? *dtype : tensor.dtype},
      pieces_{std::move(pieces)},
      files_{files},
      arena_{arena} {}

const std::vector<std::byte>& SlabReader::read(const Box& slab) {
    rows_.assign(static_cast<std::size_t>(volume(slab) * itemsize(dtype_)), std::byte{0});
    for (const Piece* piece : pieces_) {
        const Box part = intersect(piece->box, slab);
        if (!empty(part)) read_part(*piece, part, slab);
    }
    return rows_;
}

void SlabReader::read_part(const Piece& piece, const Box& part, const Box& slab) {
    std::array<Image, 1> image = {image_of(piece, itemsize(tensor_.dtype), part)};
    choose_packing(image[0]);
    arena_.clear();
    Window window{image};
    window.place_for_reading(arena_);
    window.read(files_);
    Strides strides = row_major(sizes(slab));
    Index first = 0;
    for (int k = 0; k < slab.size(); ++k) {
        strides[k] *= itemsize(dtype_);
        first += (part[k].begin - slab[k].begin) * strides[k];
    }
    cast_elements(sizes(part), window.at(0), image[0].strides(), tensor_.dtype, rows_.data() + first, strides, dtype_);
}

Index slab_elements(std::uint64_t memory, int itemsize) {
    const std::uint64_t most = std::min<std::uint64_t>(memory / 64, std::uint64_t{4} << 20);
    return std::max<Index>(1, static_cast<Index>(most) / itemsize);
}

Tuple<Index> index_of(const Shape& shape, std::uint64_t element) {
    Tuple<Index> index(shape.size());
    for (int k = shape.size() - 1; k >= 0; --k) {
        index[k] = static_cast<Index>(element % static_cast<std::uint64_t>(shape[k]));
        element /= static_cast<std::uint64_t>(shape[k]);
    }
    return index;
}

}  // namespace tpx
