// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/source_files.hpp"
#include "lib/exec/window.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace tpx {

/// Splits a tensor into boxes of at most `most` elements, in row-major order: a single index on each outer axis, an
/// interval on one axis, all of the inner axes. Precondition: the tensor has elements, and `most` is at least 1.
class Slabs {
public:
    Slabs(const Shape& shape, Index most);

    Index count() const { return count_; }
    Box operator[](Index slab) const;

    /// The row-major position of the first element of a slab in the whole tensor.
    std::uint64_t position(const Box& slab) const;

private:
    Shape shape_;
    int axis_ = 0;     // axes from here on are whole
    Index inner_ = 1;  // elements of these axes
    Index rows_ = 1;
    Index slabs_on_axis_ = 1;
    Index count_ = 1;
};

/// Reads a tensor slab by slab into row-major memory, cast to `dtype` if possible. Elements that no piece holds are
/// zero; of several copies, one counts. The referenced arguments must outlive it.
class SlabReader {
public:
    SlabReader(const Tensor& tensor, std::vector<const Piece*> pieces, std::optional<DType> dtype, SourceFiles& files,
               Arena& arena);

    DType dtype() const { return dtype_; }

    /// The elements of `slab`; valid until the next call.
    const std::vector<std::byte>& read(const Box& slab);

private:
    void read_part(const Piece& piece, const Box& part, const Box& slab);

    const Tensor& tensor_;
    DType dtype_;
    std::vector<const Piece*> pieces_;
    SourceFiles& files_;
    Arena& arena_;
    std::vector<std::byte> rows_;
};

/// How many elements of `itemsize` bytes a slab may have if its reader has `memory` bytes: reading a piece takes a
/// little more than twice its size, and a piece can be four times as large before a cast as after it.
Index slab_elements(std::uint64_t memory, int itemsize);

/// The index of the element at a row-major position.
Tuple<Index> index_of(const Shape& shape, std::uint64_t element);

}  // namespace tpx
