// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/canonical_pieces.hpp"

#include "lib/core/error.hpp"
namespace tpx::formats {
namespace {

Piece piece_in_bytes(const Tensor& tensor, Piece piece) {
    if (itemsize(tensor.dtype) > 0) return piece;
    if (piece.box != whole(tensor.shape))
        throw failure("tensor '{}': elements of {} bits ({}) cannot be split", tensor.name, info(tensor.dtype).bits,
                      name(tensor.dtype));
    piece.box = whole(in_bytes(tensor).shape);
    piece.strides = {1};
    return piece;
}

}  // namespace

Tensor in_bytes(const Tensor& tensor) {
    if (itemsize(tensor.dtype) > 0) return tensor;
    return {tensor.name, DType::u8, {volume(tensor.shape) * info(tensor.dtype).bits / 8}};
}

void PieceCutter::cut(const Tensor& tensor, const Piece& stored, const std::vector<NumberedPart>& parts,
                      std::vector<Piece>& out) {
    constexpr std::size_t few = 8;  // with at most this many parts, checks each
    if (parts.empty()) return;
    const Piece piece = piece_in_bytes(tensor, stored);
    const int size = std::max(itemsize(tensor.dtype), 1);
    const auto cut = [&](const NumberedPart& part) { cut_out(part.part, piece, part.number, size, out); };
    if (parts.size() <= few) {
        std::ranges::for_each(parts, cut);
        return;
    }
    const auto [places, is_new] = places_.try_emplace(stored.tensor);
    if (is_new) places->second = PartsByPlace{parts, tensor.shape.size()};
    places->second.for_each_in(stored.box, cut);
}

std::vector<Piece> canonical_pieces(std::span<const Tensor> tensors, std::span<const Piece> pieces,
                                    std::span<const std::vector<NumberedPart>> parts) {
    PieceCutter cutter;
    std::vector<Piece> canonical;
    canonical.reserve(pieces.size());
    for (const Piece& stored : pieces) {
        const Tensor& tensor = tensors[stored.tensor];
        cutter.cut(tensor, stored, parts[stored.tensor], canonical);
    }
    return canonical;
}

void locate_all(Checkpoint& checkpoint) {
    std::vector<std::uint32_t> all;
    for (std::uint32_t p = 0; p < checkpoint.catalogue.pieces.size(); ++p)
        if (!checkpoint.missing_files.contains(checkpoint.catalogue.pieces[p].file)) all.push_back(p);
    locate(checkpoint, all);
}

}  // namespace tpx::formats
