// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/block_offsets.hpp"

#include "formats/convert/canonical_pieces.hpp"
#include "formats/encodings/file_blocks.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tpx::formats {
namespace {

using Corner = Tuple<Index>;

Corner first_of(const Box& box) {
    Corner corner;
    for (const Interval side : box) corner.push_back(side.begin);
    return corner;
}

bool contains(const Box& box, const Corner& element) {
    for (int k = 0; k < box.size(); ++k)
        if (element[k] < box[k].begin || element[k] >= box[k].end) return false;
    return true;
}

/// Finds elements of canonical tensors in the source's pieces.
class SourceBytes {
public:
    SourceBytes(const Catalogue& source, const Conversion& out) : source_{source}, out_{out} {
        order_.resize(out.source_pieces.size());
        std::iota(order_.begin(), order_.end(), 0u);
        std::ranges::sort(order_, {}, [&](std::uint32_t piece) { return key(out.source_pieces[piece]); });
    }

    /// The offset of the element within a file system block; 0 if it is encoded or stored in another dtype, and for
    /// some elements of pieces that are cut along several axes.
    std::uint64_t place(std::uint32_t tensor, const Corner& element) const {
        const DType dtype = out_.source_tensors[tensor].dtype;
        if (dtype != out_.target_tensors[tensor].dtype) return 0;
        const auto after = std::ranges::upper_bound(order_, std::tuple{tensor, element}, {}, [&](std::uint32_t piece) {
            return key(out_.source_pieces[piece]);
        });
        if (after == order_.begin()) return 0;
        const Piece& piece = out_.source_pieces[*std::prev(after)];
        if (piece.tensor != tensor || !contains(piece.box, element) || source_.files[piece.file].coding) return 0;
        Index elements = 0;
        for (int k = 0; k < element.size(); ++k) elements += (element[k] - piece.box[k].begin) * piece.strides[k];
        return (piece.offset + static_cast<std::uint64_t>(elements * itemsize(dtype))) % block_size;
    }

private:
    static std::tuple<std::uint32_t, Corner> key(const Piece& piece) { return {piece.tensor, first_of(piece.box)}; }

    const Catalogue& source_;
    const Conversion& out_;
    std::vector<std::uint32_t> order_;  // source pieces by tensor, then by first element
};

}  // namespace

void set_block_offsets(const Catalogue& source, Conversion& out) {
    const auto is_large = [&](const Piece& piece) {
        const auto size = static_cast<std::uint64_t>(itemsize(out.content.tensors[piece.tensor].dtype));
        return static_cast<std::uint64_t>(volume(piece.box)) * size >= min_aligned_bytes;
    };
    if (std::ranges::none_of(out.content.pieces, is_large)) return;
    const SourceBytes bytes{source, out};
    PieceCutter cutter;
    std::vector<Piece> parts;
    for (Piece& piece : out.content.pieces) {
        if (!is_large(piece)) continue;
        parts.clear();
        cutter.cut(out.content.tensors[piece.tensor], piece, out.target_parts[piece.tensor], parts);
        const auto first = std::ranges::find(parts, std::uint64_t{0}, &Piece::offset);
        if (first != parts.end()) piece.offset = bytes.place(first->tensor, first_of(first->box));
    }
}

}  // namespace tpx::formats
