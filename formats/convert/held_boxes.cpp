// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/held_boxes.hpp"

#include <algorithm>
#include <set>
#include <string_view>

namespace tpx::formats {
namespace {

/// The tensors that an FSDP job did not split although they could be split: buffers and frozen parameters.
std::set<std::string_view> left_whole(const Source& source) {
    std::set<std::string_view> names;
    if (!source.layout || source.layout->fsdp == 1) return names;
    const Catalogue& catalogue = source.checkpoint.catalogue;
    for (const Piece& piece : catalogue.pieces) {
        const Tensor& tensor = catalogue.tensors[piece.tensor];
        if (piece.box == whole(tensor.shape) && !piece.box.empty() && tensor.shape[0] > 1) names.insert(tensor.name);
    }
    return names;
}

}  // namespace

std::vector<Piece> held_boxes(const Source& source, const Conversion& out, const Target& target, const ShardMap& map) {
    const std::set<std::string_view> whole_ones = out.dialect ? std::set<std::string_view>{} : left_whole(source);
    const Sharing sharing = stored_sharing(target.layout);
    const ExpressedState& expressed = out.expressed;
    std::vector<Piece> pieces;
    for (std::uint32_t t = 0; t < expressed.tensors.size(); ++t) {
        const Tensor& tensor = expressed.tensors[t];
        const bool of_virtual_node = expressed.reading.meanings[t].virtual_node >= 0 && target.layout.vn > 0;
        if (whole_ones.contains(tensor.name) && !of_virtual_node) {
            for (const int rank : *target.held)
                pieces.push_back({.tensor = t, .box = whole(tensor.shape), .rank = rank});
            continue;
        }
        for (const Shard& shard : map.shards(expressed.reading, tensor, expressed.reading.meanings[t], sharing))
            for (const int rank : map.ranks(shard, sharing))
                if (std::ranges::binary_search(*target.held, rank))
                    pieces.push_back({.tensor = t, .box = shard.box, .rank = rank});
    }
    for (Piece& piece : pieces) piece.strides = row_major(sizes(piece.box));
    return pieces;
}

}  // namespace tpx::formats
