// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/replicas.hpp"

#include <algorithm>
#include <string_view>

namespace tpx::formats::deepspeed {
namespace {

/// The parallel dimensions in which the ranks that wrote a tensor's pieces differ.
struct Spread {
    bool over_tp = false;
    bool over_dp = false;
};

std::vector<Spread> spreads(std::size_t tensors, std::span<const Piece> pieces, const Layout& layout) {
    std::vector<Spread> all(tensors);
    for (const Piece& piece : pieces) {
        const Coordinates at = coordinates(layout, std::max(piece.rank, 0));
        all[piece.tensor].over_tp |= at.tp > 0;
        all[piece.tensor].over_dp |= at.dp > 0;
    }
    return all;
}

bool is_expert(std::string_view name) { return name.find(".deepspeed_experts.") != name.npos; }

/// Every `step`-th of `count` coordinates, starting at `first % step`; only `first` if `step` is 0.
std::vector<int> every(int first, int step, int count) {
    if (step == 0) return {first};
    std::vector<int> list;
    for (int k = first % step; k < count; k += step) list.push_back(k);
    return list;
}

}  // namespace

std::vector<Piece> with_replicas(std::span<const Tensor> tensors, std::span<const Piece> pieces,
                                 std::span<const Role> roles, const Layout& layout) {
    const std::vector<Spread> spread = spreads(tensors.size(), pieces, layout);
    std::vector<Piece> all;
    for (const Piece& piece : pieces) {
        const std::uint32_t t = piece.tensor;
        const Coordinates at = coordinates(layout, std::max(piece.rank, 0));
        const bool expert = is_expert(tensors[t].name);
        // ZeRO 3 also partitions weights, except small ones, which are replicated and which only the first data rank
        // stores.
        const bool partitioned = roles[t] == Role::weight ? layout.zero == 3 && spread[t].over_dp
                                                          : !tensors[t].shape.empty() && roles[t] != Role::extra;
        const int over_dp = partitioned ? 0 : expert ? layout.ep : 1;
        const int over_tp = spread[t].over_tp ? 0 : 1;
        for (int dp : every(at.dp, over_dp, layout.dp)) {
            for (int tp : every(at.tp, over_tp, layout.tp)) {
                all.push_back(piece);
                all.back().rank = rank_at(layout, {tp, at.pp, dp, 0});
            }
        }
    }
    return all;
}

}  // namespace tpx::formats::deepspeed
