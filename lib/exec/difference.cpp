// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/difference.hpp"

#include "lib/exec/kernel.hpp"
#include "lib/exec/open_files.hpp"
#include "lib/exec/window.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

namespace tpx {
namespace {

constexpr std::uint64_t nowhere = std::numeric_limits<std::uint64_t>::max();

// One tensor of one side, read slab by slab into row-major memory.
class Source {
public:
    Source(const Stored& stored, std::uint32_t tensor, std::optional<DType> cast, std::uint64_t memory)
        : tensor_{stored.side.tensors[tensor]},
          dtype_{cast && can_cast(tensor_.dtype, *cast) ? *cast : tensor_.dtype},
          files_{stored.files, O_RDONLY},
          arena_{memory} {
        for (const Piece& piece : stored.side.pieces) {
            if (piece.tensor == tensor) pieces_.push_back(&piece);
        }
    }

    DType dtype() const { return dtype_; }

    const std::vector<std::byte>& read(const Box& slab) {
        const int item = itemsize(dtype_);
        rows_.assign(static_cast<std::size_t>(volume(slab) * item), std::byte{0});
        for (const Piece* piece : pieces_) {
            const Box part = intersect(piece->box, slab);
            if (!empty(part)) read_part(*piece, part, slab, item);
        }
        return rows_;
    }

private:
    void read_part(const Piece& piece, const Box& part, const Box& slab, int item) {
        std::array<Image, 1> image = {image_of(piece, itemsize(tensor_.dtype), part)};
        choose_packing(image[0]);
        arena_.clear();
        Window window{image};
        window.place_for_reading(arena_);
        window.read(files_);
        Strides strides = row_major(sizes(slab));
        Index first = 0;
        for (int k = 0; k < slab.size(); ++k) {
            strides[k] *= item;
            first += (part[k].begin - slab[k].begin) * strides[k];
        }
        cast_elements(sizes(part), window.at(0), image[0].strides(), tensor_.dtype, rows_.data() + first, strides,
                      dtype_);
    }

    const Tensor& tensor_;
    DType dtype_;
    std::vector<const Piece*> pieces_;
    OpenFiles files_;
    Arena arena_;
    std::vector<std::byte> rows_;
};

// Cuts a tensor into boxes of at most `most` elements that follow one another in row-major order: single indices on
// the outer axes, an interval on one, all of the inner ones.
class Slabs {
public:
    Slabs(const Shape& shape, Index most) : shape_{shape} {
        for (axis_ = shape.size(); axis_ > 0 && inner_ * shape[axis_ - 1] <= most;) inner_ *= shape[--axis_];
        if (axis_ == 0) return;
        rows_ = std::max<Index>(1, most / inner_);
        slabs_on_axis_ = (shape[axis_ - 1] + rows_ - 1) / rows_;
        count_ = slabs_on_axis_;
        for (int k = 0; k < axis_ - 1; ++k) count_ *= shape[k];
    }

    Index count() const { return count_; }

    Box operator[](Index slab) const {
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

private:
    Shape shape_;
    int axis_ = 0;     // axes from here on are whole
    Index inner_ = 1;  // elements of those
    Index rows_ = 1;
    Index slabs_on_axis_ = 1;
    Index count_ = 1;
};

Tuple<Index> index_of(const Shape& shape, std::uint64_t element) {
    Tuple<Index> index(shape.size());
    for (int k = shape.size() - 1; k >= 0; --k) {
        index[k] = static_cast<Index>(element) % shape[k];
        element /= static_cast<std::uint64_t>(shape[k]);
    }
    return index;
}

// What a rank finds in its slabs.
struct Found {
    std::uint64_t element = nowhere;  // row-major
    std::string first;
    std::string second;
};

Found search(const mpi::Comm& comm, const Shape& shape, Source& first, Source& second, Index most) {
    const auto item = static_cast<std::size_t>(itemsize(first.dtype()));
    const Slabs slabs{shape, most};
    const Strides strides = row_major(shape);
    for (Index slab = comm.rank(); slab < slabs.count(); slab += comm.size()) {
        const Box box = slabs[slab];
        const auto& a = first.read(box);
        const auto& b = second.read(box);
        const auto differs = std::ranges::mismatch(a, b).in1 - a.begin();
        if (differs == static_cast<std::ptrdiff_t>(a.size())) continue;
        const std::size_t in_slab = static_cast<std::size_t>(differs) / item;
        std::uint64_t element = in_slab;
        for (int k = 0; k < box.size(); ++k) element += static_cast<std::uint64_t>(box[k].begin * strides[k]);
        return {element, element_text(first.dtype(), a.data() + in_slab * item),
                element_text(first.dtype(), b.data() + in_slab * item)};
    }
    return {};
}

}  // namespace

std::optional<Difference> first_difference(const mpi::Comm& comm, std::uint32_t tensor, const Stored& first,
                                           const Stored& second, const ExecOptions& options,
                                           std::optional<DType> cast) {
    const Shape& shape = first.side.tensors[tensor].shape;
    Found mine;
    mpi::all_or_none(comm, [&] {
        if (volume(shape) == 0) return;
        Source a{first, tensor, cast, options.memory / 2}, b{second, tensor, cast, options.memory / 2};
        if (a.dtype() != b.dtype())
            throw failure("tensor '{}': dtypes differ: {} and {}", first.side.tensors[tensor].name, name(a.dtype()),
                          name(b.dtype()));
        // While a piece is read it takes twice its size and a little more, before a cast four times as much.
        const std::uint64_t most = std::min<std::uint64_t>(options.memory / 64, std::uint64_t{4} << 20);
        mine = search(comm, shape, a, b, std::max<Index>(1, static_cast<Index>(most) / itemsize(a.dtype())));
    });
    std::array<std::uint64_t, 1> lowest = {mine.element};
    mpi::all_min(comm, lowest);
    if (lowest[0] == nowhere) return std::nullopt;
    std::array<std::uint64_t, 1> finder = {mine.element == lowest[0] ? std::uint64_t(comm.rank()) : nowhere};
    mpi::all_min(comm, finder);
    mpi::broadcast(comm, mine.first, static_cast<int>(finder[0]));
    mpi::broadcast(comm, mine.second, static_cast<int>(finder[0]));
    return Difference{index_of(shape, lowest[0]), mine.first, mine.second};
}

}  // namespace tpx
