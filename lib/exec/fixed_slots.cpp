// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/fixed_slots.hpp"

#include "lib/core/box.hpp"
#include "lib/core/dtype.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace tpx {
namespace {

/// Bytes of a file.
struct FileBytes {
    std::uint32_t file = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    bool is_before(const FileBytes& other) const { return std::tie(file, end) <= std::tie(other.file, other.begin); }
};

/// The payload of a piece without gaps, as archives store it.
FileBytes payload_of(const Draft& draft, const Piece& piece) {
    const Index bytes = volume(piece.box) * itemsize(draft.tensors[piece.tensor].dtype);
    return {piece.file, piece.offset, piece.offset + static_cast<std::uint64_t>(bytes)};
}

FileBytes bytes_of(const Draft::Fixed& fixed) { return {fixed.file, fixed.offset, fixed.offset + fixed.bytes.size()}; }

/// Whether all pieces have slots, runs and payloads (in the order of their slots) are sorted, and no payload or copy
/// overlaps a run.
bool are_disjoint(const Draft& draft) {
    FileBytes run, payload;  // the last ones
    std::size_t next = 0, pieces = 0;
    const auto skip_runs_before = [&](const FileBytes& bytes) {
        for (; next < draft.fixed.size() && bytes_of(draft.fixed[next]).is_before(bytes); ++next) {
            if (!run.is_before(bytes_of(draft.fixed[next]))) return false;
            run = bytes_of(draft.fixed[next]);
        }
        return next == draft.fixed.size() || bytes.is_before(bytes_of(draft.fixed[next]));
    };
    for (std::size_t slot = 0; slot < draft.crc_slots.size(); ++slot) {
        const Draft::CrcSlot& own = draft.crc_slots[slot];
        if (own.length > 0) return false;
        if (slot > 0 && own.piece == draft.crc_slots[slot - 1].piece) continue;
        const FileBytes bytes = payload_of(draft, draft.pieces[own.piece]);
        if (!payload.is_before(bytes) || !skip_runs_before(bytes)) return false;
        payload = bytes;
        ++pieces;
    }
    return pieces == draft.pieces.size() && skip_runs_before({std::numeric_limits<std::uint32_t>::max(), 0, 0}) &&
           std::ranges::all_of(draft.copies, [&](const Draft::Copy& copy) {
               const FileBytes bytes{copy.file, copy.offset, copy.offset + copy.length};
               const auto behind = std::ranges::partition_point(
                   draft.fixed, [&](const Draft::Fixed& fixed) { return bytes_of(fixed).is_before(bytes); });
               return behind == draft.fixed.end() || bytes.is_before(bytes_of(*behind));
           });
}

}  // namespace

FixedSlots::FixedSlots(const Draft& draft) {
    if (draft.crc_slots.empty() || !are_disjoint(draft)) return;
    std::size_t slot = 0;
    ends_.reserve(draft.fixed.size());
    for (const Draft::Fixed& fixed : draft.fixed) {
        for (; slot < draft.crc_slots.size(); ++slot) {
            const Draft::CrcSlot& own = draft.crc_slots[slot];
            const FileBytes bytes{own.file, own.offset, own.offset + 4};
            if (bytes_of(fixed).is_before(bytes)) break;
            if (own.file != fixed.file || own.offset < fixed.offset || bytes.end > bytes_of(fixed).end) {
                ends_.clear();
                return;
            }
        }
        ends_.push_back(static_cast<std::uint32_t>(slot));
    }
    if (slot < draft.crc_slots.size()) ends_.clear();
}

}  // namespace tpx
