// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/wire/parcel_packer.hpp"

#include "lib/core/error.hpp"
#include "lib/core/flat.hpp"
#include "lib/exec/copy_elements.hpp"
#include "lib/exec/image.hpp"

#include <algorithm>

namespace tpx {
namespace {

Box moved(Box box, const Box& origin) {
    for (int k = 0; k < box.size(); ++k) {
        box[k].begin += origin[k].begin;
        box[k].end += origin[k].begin;
    }
    return box;
}

Strides in_bytes(Strides strides, int itemsize) {
    for (Index& stride : strides) stride *= itemsize;
    return strides;
}

}  // namespace

ParcelPacker::ParcelPacker(std::span<const PieceCell> cells, const Side& held, std::span<const SourceFile> files)
    : cells_{cells}, held_{held}, pieces_of_tensors_(held.tensors.size()), files_{files}, arena_{memory} {
    for (std::uint32_t k = 0; k < held.pieces.size(); ++k) pieces_of_tensors_[held.pieces[k].tensor].push_back(k);
}

void ParcelPacker::pack(std::uint32_t parcel, std::uint64_t begin, std::span<std::byte> into) {
    const auto place = [](const PieceCell& cell) { return std::pair{cell.parcel, cell.begin}; };
    auto cell = std::ranges::upper_bound(cells_, std::pair{parcel, begin}, {}, place);
    for (--cell; !into.empty(); ++cell) {
        if (cell == cells_.end() || cell->parcel != parcel)
            throw failure("internal error: parcel {} has no cell at byte {}; please report this", parcel, begin);
        const auto itemsize = static_cast<std::uint64_t>(tpx::itemsize(held_.tensors[cell->tensor].dtype));
        const std::uint64_t end = cell->begin + static_cast<std::uint64_t>(volume(cell->box)) * itemsize;
        const std::uint64_t count = std::min<std::uint64_t>(into.size(), end - begin);
        const Interval elements{static_cast<Index>((begin - cell->begin) / itemsize),
                                static_cast<Index>((begin - cell->begin + count) / itemsize)};
        std::span<std::byte> left = into.first(count);
        for (const Box& box : boxes_of_range(sizes(cell->box), elements)) {
            const std::uint64_t bytes = static_cast<std::uint64_t>(volume(box)) * itemsize;
            pack_box(cell->tensor, moved(box, cell->box), left.first(bytes));
            left = left.subspan(bytes);
        }
        into = into.subspan(count);
        begin += count;
    }
}

void ParcelPacker::pack_box(std::uint32_t tensor, const Box& box, std::span<std::byte> into) {
    Index missing = volume(box);
    for (std::uint32_t k : pieces_of_tensors_[tensor]) {
        const Piece& piece = held_.pieces[k];
        const Box part = intersect(piece.box, box);
        if (part.empty() ? !box.empty() : volume(part) == 0) continue;
        read_part(piece, part, box, into.data());
        missing -= volume(part);
        if (missing <= 0) return;
    }
    if (missing > 0)
        throw failure("internal error: tensor '{}': {} elements to send are not here; please report this",
                      held_.tensors[tensor].name, missing);
}

void ParcelPacker::read_part(const Piece& piece, const Box& part, const Box& box, std::byte* into) {
    const int size = itemsize(held_.tensors[piece.tensor].dtype);
    Image image = image_of(piece, size, part);
    choose_packing(image);
    if (image.memory() > memory / 2) image.pack = true;
    arena_.clear();
    Window window{std::span{&image, 1}};
    window.place_for_reading(arena_);
    window.read(files_);
    const Strides strides = in_bytes(row_major(sizes(box)), size);
    Index offset = 0;
    for (int k = 0; k < box.size(); ++k) offset += (part[k].begin - box[k].begin) * strides[k];
    copy_elements(sizes(part), window.at(0) + place_in(image, part), image.strides(), into + offset, strides, size);
}

}  // namespace tpx
