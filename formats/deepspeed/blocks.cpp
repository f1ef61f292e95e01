// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/blocks.hpp"

#include "lib/core/error.hpp"

#include <algorithm>

namespace tpx::formats::deepspeed {

Slicing concatenate_slices(std::span<const Shape> locals, int dim, const Widths& widths) {
    Slicing result{.whole = locals[0]};
    result.blocks.resize(locals.size());
    std::vector<Index> taken(locals.size(), 0);
    Index end = 0;
    for (const std::vector<Index>& of_rank : widths) {
        for (std::size_t rank = 0; rank < locals.size(); ++rank) {
            SliceBlock block{.local = whole(locals[rank]), .shift = Tuple<Index>(locals[rank].size())};
            block.local[dim] = {taken[rank], taken[rank] + of_rank[rank]};
            block.shift[dim] = end - taken[rank];
            if (!block.local[dim].empty()) result.blocks[rank].push_back(block);
            taken[rank] += of_rank[rank];
            if (__builtin_add_overflow(end, of_rank[rank], &end)) throw failure("its parts are too large");
        }
    }
    for (std::size_t rank = 0; rank < locals.size(); ++rank) {
        if (taken[rank] != locals[rank][dim])
            throw failure("tensor rank {} has size {} on axis {}, but its parts have {}", rank, locals[rank][dim], dim,
                          taken[rank]);
    }
    result.whole[dim] = end;
    if (checked_volume(result.whole) < 0) throw failure("shape {} is too large", to_string(result.whole));
    return result;
}

void cut_rows(Slicing& slicing, Index rows) {
    if (slicing.whole.empty() || slicing.whole[0] < rows)
        throw failure("shape {} has fewer rows than the vocabulary of {}", to_string(slicing.whole), rows);
    slicing.whole[0] = rows;
    for (auto& blocks : slicing.blocks) {
        for (SliceBlock& block : blocks) {
            const Interval global = intersect(shift(block.local[0], block.shift[0]), {0, rows});
            block.local[0] = shift(global, -block.shift[0]);
        }
        std::erase_if(blocks, [](const SliceBlock& block) { return empty(block.local); });
    }
}

Slicing unsliced(const Shape& shape) {
    return {.whole = shape, .blocks = {{{.local = whole(shape), .shift = Tuple<Index>(shape.size())}}}};
}

}  // namespace tpx::formats::deepspeed
