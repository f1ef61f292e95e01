// SPDX-License-Identifier: Apache-2.0
#include "cmd/jobs/draft_part.hpp"

namespace tpx::cli {

Draft part_of_draft(const Draft& all, const std::vector<bool>& files, std::vector<std::uint32_t>& numbers) {
    Draft draft;
    draft.tensors = all.tensors;
    numbers.assign(files.size(), 0);
    for (std::size_t f = 0; f < files.size(); ++f) {
        if (!files[f]) continue;
        numbers[f] = static_cast<std::uint32_t>(draft.files.size());
        draft.files.push_back(all.files[f]);
    }
    const auto renumbered = [&](auto entry) {
        entry.file = numbers[entry.file];
        return entry;
    };
    std::vector<std::uint32_t> pieces(all.pieces.size(), 0);
    for (std::size_t k = 0; k < all.pieces.size(); ++k) {
        if (!files[all.pieces[k].file]) continue;
        pieces[k] = static_cast<std::uint32_t>(draft.pieces.size());
        draft.pieces.push_back(renumbered(all.pieces[k]));
    }
    for (const Draft::Fixed& fixed : all.fixed)
        if (files[fixed.file]) draft.fixed.push_back(renumbered(fixed));
    for (Draft::CrcSlot slot : all.crc_slots) {
        if (!files[slot.file]) continue;
        slot.piece = pieces[slot.piece];
        draft.crc_slots.push_back(renumbered(slot));
    }
    return draft;
}

}  // namespace tpx::cli
