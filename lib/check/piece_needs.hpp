// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/parcel_book.hpp"

#include <vector>

namespace tpx {

/// What ranks hold of a checkpoint's tensors, as the pieces that are listed.
class PieceNeeds {
public:
    /// Throws Error when a piece lies outside its tensor, or its tensor is of a role that is not there.
    PieceNeeds(const PlanTables& tables, ParcelBook& book);

    /// Adds to the book all that new rank `rank` needs, by who holds it.
    void add(std::int32_t rank);

private:
    /// Ranks that have the same box.
    struct Same {
        Box box;
        std::vector<std::int32_t> ranks;
    };
    using Boxes = std::vector<Same>;

    void check_pieces(const std::vector<Piece>& pieces) const;
    std::vector<Boxes> by_tensor(const std::vector<Piece>& pieces) const;
    void add(std::uint32_t tensor, std::span<const Box> own);
    void add_cell(std::uint32_t tensor, const Box& cell, std::span<const Same* const> before,
                  std::span<const Same* const> after);

    const HeldTables& held_;
    ParcelBook& book_;
    std::vector<Boxes> before_, after_;               // by tensor
    std::vector<std::vector<std::uint32_t>> pieces_;  // of new ranks, by tensor
    std::vector<std::uint32_t> roles_;                // of tensors
};

}  // namespace tpx
