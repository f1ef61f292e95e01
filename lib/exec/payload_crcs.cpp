// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/payload_crcs.hpp"

#include "lib/core/crc.hpp"

#include <algorithm>
#include <atomic>
#include <tuple>
#include <utility>

namespace tpx {

PayloadCrcs::PayloadCrcs(const Draft& draft) : of_slot_(draft.crc_slots.size()) {
    const auto payload_of = [&](const Draft::CrcSlot& slot) -> Payload {
        if (slot.length > 0) return {slot.file, slot.begin, slot.begin + slot.length, 0};
        const Piece& piece = draft.pieces[slot.piece];
        const Index bytes = volume(piece.box) * itemsize(draft.tensors[piece.tensor].dtype);
        return {piece.file, piece.offset, piece.offset + static_cast<std::uint64_t>(bytes), 0};
    };
    std::vector<std::pair<Payload, std::size_t>> order;
    for (std::size_t slot = 0; slot < draft.crc_slots.size(); ++slot)
        order.emplace_back(payload_of(draft.crc_slots[slot]), slot);
    std::ranges::sort(order, {}, [](const auto& entry) {
        return std::tuple{entry.first.file, entry.first.begin, entry.first.end, entry.second};
    });
    // Archives have several slots for one payload.
    const auto place = [](const Payload& payload) { return std::tie(payload.file, payload.begin, payload.end); };
    for (const auto& [payload, slot] : order) {
        if (payloads_.empty() || place(payloads_.back()) != place(payload)) payloads_.push_back(payload);
        of_slot_[slot] = payloads_.size() - 1;
    }
}

void PayloadCrcs::add(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes) {
    const std::uint64_t end = offset + bytes.size();
    auto payload = std::ranges::partition_point(
        payloads_, [&](const Payload& p) { return std::tie(p.file, p.end) <= std::tie(file, offset); });
    for (; payload != payloads_.end() && payload->file == file && payload->begin < end; ++payload) {
        const std::uint64_t from = std::max(offset, payload->begin);
        const std::uint64_t to = std::min(end, payload->end);
        if (from >= to) continue;
        const std::uint32_t crc = Crc32::of(bytes.subspan(from - offset, to - from));
        std::atomic_ref{payload->crc}.fetch_xor(Crc32::shift(crc, payload->end - to), std::memory_order_relaxed);
    }
}

void PayloadCrcs::clear() {
    for (Payload& payload : payloads_) payload.crc = 0;
}

void PayloadCrcs::combine(const mpi::Comm& comm) {
    std::vector<std::uint64_t> crcs(payloads_.size());
    std::ranges::transform(payloads_, crcs.begin(), &Payload::crc);
    mpi::all_xor(comm, crcs);
    for (std::size_t k = 0; k < crcs.size(); ++k) payloads_[k].crc = static_cast<std::uint32_t>(crcs[k]);
}

std::uint32_t PayloadCrcs::value(std::size_t slot) const {
    const Payload& payload = payloads_[of_slot_[slot]];
    return zip_crc(payload.crc, payload.end - payload.begin);
}

}  // namespace tpx
