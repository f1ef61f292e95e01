// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/device/move_copies.hpp"

#include "lib/exec/copy_elements.hpp"

namespace tpx {
namespace {

DType dtype_of(const Side& side, std::uint32_t piece) { return side.tensors[side.pieces[piece].tensor].dtype; }

}  // namespace

BoxPlace place_of(const Piece& piece, const Box& box, int itemsize) {
    BoxPlace place{{}, piece.offset};
    for (int k = 0; k < box.size(); ++k) {
        place.strides.push_back(piece.strides[k] * itemsize);
        place.offset += static_cast<std::uint64_t>((box[k].begin - piece.box[k].begin) * place.strides[k]);
    }
    return place;
}

bool can_copy(const Move& move, const Side& source, const Side& target) {
    const DType from = dtype_of(source, move.source), to = dtype_of(target, move.target);
    return CopyBatch::supports(from, to) && can_cast(from, to);
}

void copy_moves(const Moves& moves, std::span<const std::uint32_t> chosen, const PlacedSide<const std::byte>& source,
                const PlacedSide<std::byte>& target, std::uint32_t* overflow, std::size_t most,
                const std::function<void(const CopyBatch&)>& run) {
    CopyBatch batch{overflow};
    for (const std::uint32_t number : chosen) {
        const Move& move = moves[number];
        const Piece& from = source.side.pieces[move.source];
        const Piece& to = target.side.pieces[move.target];
        const DType was = dtype_of(source.side, move.source), becomes = dtype_of(target.side, move.target);
        const BoxPlace read = place_of(from, move.box, itemsize(was)),
                       written = place_of(to, move.box, itemsize(becomes));
        batch.add(sizes(move.box), source.files[from.file] + read.offset, read.strides, was,
                  target.files[to.file] + written.offset, written.strides, becomes);
        if (batch.copies() < most) continue;
        run(batch);
        batch = CopyBatch{overflow};
    }
    if (batch.copies() > 0) run(batch);
}

}  // namespace tpx
