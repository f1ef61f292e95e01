// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"
#include "lib/change/parcel.hpp"
#include "lib/change/piece_parcels.hpp"
#include "lib/exec/source_files.hpp"
#include "lib/exec/window.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// Reads parts of parcels from the files of one host, in the order of their cells. For one thread.
class ParcelPacker {
public:
    /// Address space for the buffer of one box; pages take up memory only once they are used.
    static constexpr std::uint64_t memory = std::uint64_t{8} << 20;

    /// `cells` are those of cells_of(), `held` the pieces in `files`. All must outlive this.
    ParcelPacker(std::span<const PieceCell> cells, const Side& held, std::span<const SourceFile> files);

    /// Fills `into` with the bytes from `begin` on of a parcel that the host holds. Precondition: both ends are at
    /// element boundaries. Throws Error.
    void pack(std::uint32_t parcel, std::uint64_t begin, std::span<std::byte> into);

private:
    void pack_box(std::uint32_t tensor, const Box& box, std::span<std::byte> into);
    void read_part(const Piece& piece, const Box& part, const Box& box, std::byte* into);

    std::span<const PieceCell> cells_;
    Side held_;
    std::vector<std::vector<std::uint32_t>> pieces_of_tensors_;
    SourceFiles files_;
    Arena arena_;
};

}  // namespace tpx
