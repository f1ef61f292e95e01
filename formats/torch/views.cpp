// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/torch_file.hpp"
#include "lib/core/box.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

namespace tpx::formats {
namespace {

/// A tensor that is one piece, and the byte range in the file from its first element to the end of its last one.
struct TensorSpan {
    std::uint32_t tensor = 0;
    std::uint32_t file = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool solid = false;  ///< in C order without gaps
    const Piece* piece = nullptr;
};

std::vector<TensorSpan> spans_of(const Catalogue& catalogue) {
    std::vector<TensorSpan> spans;
    std::vector<std::uint32_t> pieces(catalogue.tensors.size(), 0);
    for (const Piece& piece : catalogue.pieces) ++pieces[piece.tensor];
    for (const Piece& piece : catalogue.pieces) {
        const Tensor& tensor = catalogue.tensors[piece.tensor];
        const int size = itemsize(tensor.dtype);
        if (pieces[piece.tensor] != 1 || piece.box != whole(tensor.shape) || size == 0) continue;
        std::uint64_t last = 0;
        for (int k = 0; k < tensor.shape.size(); ++k)
            last += static_cast<std::uint64_t>((tensor.shape[k] - 1) * piece.strides[k]);
        spans.push_back({.tensor = piece.tensor,
                         .file = piece.file,
                         .begin = piece.offset,
                         .end = piece.offset + (last + 1) * static_cast<std::uint64_t>(size),
                         .solid = piece.strides == row_major(tensor.shape),
                         .piece = &piece});
    }
    // Among spans with the same start, longer ones come first, then solid ones, then lower tensor numbers.
    std::ranges::sort(spans, [](const TensorSpan& a, const TensorSpan& b) {
        return std::tuple{a.file, a.begin, b.end, b.solid, a.tensor} <
               std::tuple{b.file, b.begin, a.end, a.solid, b.tensor};
    });
    return spans;
}

}  // namespace

std::map<std::uint32_t, TensorView> find_views(const Checkpoint& checkpoint) {
    const Catalogue& catalogue = checkpoint.catalogue;
    std::map<std::uint32_t, TensorView> views;
    const std::vector<TensorSpan> spans = spans_of(catalogue);
    const TensorSpan* base = nullptr;
    for (const TensorSpan& span : spans) {
        const Tensor& tensor = catalogue.tensors[span.tensor];
        const auto size = static_cast<std::uint64_t>(itemsize(tensor.dtype));
        const bool inside = base != nullptr && base->file == span.file && span.end <= base->end &&
                            catalogue.tensors[base->tensor].dtype == tensor.dtype &&
                            (span.begin - base->begin) % size == 0;
        if (inside)
            views[span.tensor] = {.name = tensor.name,
                                  .shape = tensor.shape,
                                  .strides = span.piece->strides,
                                  .tensor = base->tensor,
                                  .begin = (span.begin - base->begin) / size};
        else if (span.solid && (base == nullptr || base->file != span.file || span.end > base->end))
            base = &span;
    }
    return views;
}

}  // namespace tpx::formats
