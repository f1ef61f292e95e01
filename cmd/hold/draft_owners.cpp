// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/draft_owners.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tpx::cli {

std::uint64_t payload_of(const Draft& draft, const Piece& piece) {
    return static_cast<std::uint64_t>(volume(piece.box) * itemsize(draft.tensors[piece.tensor].dtype));
}

std::vector<std::uint32_t> owners(const Draft& draft, std::span<const Piece> pieces) {
    std::vector<std::uint32_t> order(draft.pieces.size());
    for (std::uint32_t k = 0; k < order.size(); ++k) order[k] = k;
    std::erase_if(order, [&](std::uint32_t k) { return payload_of(draft, draft.pieces[k]) == 0; });
    const auto place = [&](std::uint32_t k) { return std::pair{draft.pieces[k].file, draft.pieces[k].offset}; };
    std::ranges::sort(order, {}, place);
    std::vector<std::uint32_t> found;
    for (const Piece& piece : pieces) {
        const auto after = std::ranges::upper_bound(order, std::pair{piece.file, piece.offset}, {}, place);
        found.push_back(after == order.begin() ? 0 : *std::prev(after));
    }
    return found;
}

}  // namespace tpx::cli
