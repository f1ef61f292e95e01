// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/parcel_book.hpp"

#include <vector>

namespace tpx {

/// What ranks hold of a checkpoint's tensors, as the pieces that are listed.
class PieceNeeds {
public:
    /// Throws Error when a piece or a cell lies outside its tensor, or its tensor is of a role that is not there.
    PieceNeeds(const PlanTables& tables, ParcelBook& book);

    /// Adds to the book all that new rank `rank` needs, by who holds it. If the file has cells, throws Error unless
    /// each of these elements is in exactly one cell, and this cell is of the parcel that the element belongs to.
    void add(std::int32_t rank);

private:
    /// Ranks that have the same box.
    struct Same {
        Box box;
        std::vector<std::int32_t> ranks;
    };
    using Boxes = std::vector<Same>;
    /// A cell of the file.
    struct FileCell {
        Box box;
        std::uint32_t parcel = 0;
    };
    /// What is near a box that a rank needs.
    struct Near {
        std::vector<const Same*> before, after;
        std::vector<const FileCell*> cells;
    };

    void check_pieces(const std::vector<Piece>& pieces) const;
    std::vector<Boxes> by_tensor(const std::vector<Piece>& pieces) const;
    void add(std::uint32_t tensor, std::span<const Box> own);
    void add_cell(std::uint32_t tensor, const Box& cell, const Near& near);
    void compare(std::uint32_t tensor, const Box& cell, const Near& near, std::uint32_t parcel) const;

    const HeldTables& held_;
    ParcelBook& book_;
    std::vector<Boxes> before_, after_;               // by tensor
    std::vector<std::vector<FileCell>> cells_;        // by tensor; empty: the file has no cells
    std::vector<std::vector<std::uint32_t>> pieces_;  // of new ranks, by tensor
    std::vector<std::uint32_t> roles_;                // of tensors
};

}  // namespace tpx
