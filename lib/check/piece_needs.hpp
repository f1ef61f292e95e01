// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/parcel_checker.hpp"

#include <vector>

namespace tpx {

/// Derives what new ranks need, and which ranks hold it, from the listed pieces of a checkpoint's tensors.
class PieceNeeds {
public:
    /// Throws Error if a piece is outside its tensor, or if names or roles of tensors differ from those in the other
    /// tables.
    PieceNeeds(const PlanTables& tables, ParcelChecker& checker);

    /// Adds everything that new rank `rank` needs to the checker, with its holders. If the file has cells, throws Error
    /// unless each of these elements is in exactly one cell, and this cell is of the parcel that the element belongs
    /// to.
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
    /// The boxes and cells that intersect a box that a rank needs.
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
    ParcelChecker& checker_;
    std::vector<Boxes> before_, after_;               // by tensor
    std::vector<std::vector<FileCell>> cells_;        // by tensor; empty: the file has no cells
    std::vector<std::vector<std::uint32_t>> pieces_;  // of new ranks, by tensor
    std::vector<std::uint32_t> roles_;                // of tensors
};

}  // namespace tpx
