// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/difference.hpp"

#include "lib/exec/slabs.hpp"
#include "lib/exec/source_files.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

namespace tpx {
namespace {

constexpr std::uint64_t nowhere = std::numeric_limits<std::uint64_t>::max();

// One tensor of one side.
struct Source {
    Source(const StoredSide& stored, std::uint32_t tensor, std::optional<DType> cast, std::uint64_t memory)
        : files{stored.files},
          arena{memory},
          reader{stored.side.tensors[tensor], pieces_of(stored.side, tensor), cast, files, arena} {}

    static std::vector<const Piece*> pieces_of(const Side& side, std::uint32_t tensor) {
        std::vector<const Piece*> pieces;
        for (const Piece& piece : side.pieces) {
            if (piece.tensor == tensor) pieces.push_back(&piece);
        }
        return pieces;
    }

    SourceFiles files;
    Arena arena;
    SlabReader reader;
};

// What a rank finds in its slabs.
struct Found {
    std::uint64_t element = nowhere;  // position in row-major order
    std::string first;
    std::string second;
};

Found search(const mpi::Comm& comm, const Shape& shape, SlabReader& first, SlabReader& second, Index most) {
    const auto item = static_cast<std::size_t>(itemsize(first.dtype()));
    const Slabs slabs{shape, most};
    for (Index slab = comm.rank(); slab < slabs.count(); slab += comm.size()) {
        const Box box = slabs[slab];
        const auto& a = first.read(box);
        const auto& b = second.read(box);
        const auto differs = std::ranges::mismatch(a, b).in1 - a.begin();
        if (differs == static_cast<std::ptrdiff_t>(a.size())) continue;
        const std::size_t in_slab = static_cast<std::size_t>(differs) / item;
        return {slabs.position(box) + in_slab, element_text(first.dtype(), a.data() + in_slab * item),
                element_text(first.dtype(), b.data() + in_slab * item)};
    }
    return {};
}

}  // namespace

std::optional<ElementDifference> first_difference(const mpi::Comm& comm, std::uint32_t tensor, const StoredSide& first,
                                                  const StoredSide& second, const ExecOptions& options,
                                                  std::optional<DType> cast) {
    const Shape& shape = first.side.tensors[tensor].shape;
    Found mine;
    mpi::all_or_none(comm, [&] {
        if (volume(shape) == 0) return;
        Source a{first, tensor, cast, options.memory / 2}, b{second, tensor, cast, options.memory / 2};
        const DType dtype = a.reader.dtype();
        if (dtype != b.reader.dtype())
            throw failure("tensor '{}': dtypes differ: {} and {}", first.side.tensors[tensor].name, name(dtype),
                          name(b.reader.dtype()));
        mine = search(comm, shape, a.reader, b.reader, slab_elements(options.memory, itemsize(dtype)));
    });
    std::array<std::uint64_t, 1> lowest = {mine.element};
    mpi::all_min(comm, lowest);
    if (lowest[0] == nowhere) return std::nullopt;
    std::array<std::uint64_t, 1> finder = {mine.element == lowest[0] ? std::uint64_t(comm.rank()) : nowhere};
    mpi::all_min(comm, finder);
    mpi::broadcast(comm, mine.first, static_cast<int>(finder[0]));
    mpi::broadcast(comm, mine.second, static_cast<int>(finder[0]));
    return ElementDifference{index_of(shape, lowest[0]), mine.first, mine.second};
}

}  // namespace tpx
