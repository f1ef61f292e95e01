// SPDX-License-Identifier: Apache-2.0
#include "lib/change/cuts.hpp"

namespace tpx {
namespace {

/// The parts of an axis of `size` for tensor parallelism, with the padding that the last ones have.
Cuts padded_parts(Index size, int parts, Index pad) {
    if (pad > 0) size = (size + pad * parts - 1) / (pad * parts) * (pad * parts);
    return equal_cuts(size, parts);
}

/// Each of `cuts` in `shards`, as torch.chunk does.
Cuts chunks(const Cuts& cuts, int shards) {
    Cuts all;
    for (const AxisCut& cut : cuts) {
        for (int shard = 0; shard < shards; ++shard)
            all.push_back({chunk(cut.interval, shards, shard), cut.part, shard});
    }
    return all;
}

int axis_of_shards(const std::vector<Cuts>& cuts, int shards, int wanted) {
    const bool fits = wanted < static_cast<int>(cuts.size()) && cuts[wanted].front().interval.size() % shards == 0;
    return fits ? wanted : 0;
}

}  // namespace

Cuts equal_cuts(Index size, int n) {
    Cuts cuts;
    for (int k = 0; k < n; ++k) cuts.push_back({{size / n * k, size / n * (k + 1)}, n > 1 ? k : -1, -1});
    return cuts;
}

std::vector<Cuts> cuts_of(const TensorClass& kind, int parts, int shards, int shard_axis) {
    std::vector<Cuts> cuts;
    for (int axis = 0; axis < kind.shape.size(); ++axis)
        cuts.push_back(axis == kind.tp_axis ? padded_parts(kind.shape[axis], parts, kind.pad)
                                            : equal_cuts(kind.shape[axis], 1));
    if (shards > 1 && !cuts.empty()) {
        Cuts& again = cuts[axis_of_shards(cuts, shards, shard_axis)];
        again = chunks(again, shards);
    }
    for (int axis = 0; axis < kind.shape.size(); ++axis) {
        for (AxisCut& cut : cuts[axis]) cut.interval = intersect(cut.interval, {0, kind.shape[axis]});
        std::erase_if(cuts[axis], [](const AxisCut& cut) { return cut.interval.empty(); });
    }
    return cuts;
}

std::vector<SharedCut> merge(const Cuts& from, const Cuts& to) {
    std::vector<SharedCut> shared;
    std::size_t i = 0;
    std::size_t j = 0;
    while (i < from.size() && j < to.size()) {
        const Interval both = intersect(from[i].interval, to[j].interval);
        if (!both.empty()) shared.push_back({both, from[i], to[j]});
        const Index end = std::min(from[i].interval.end, to[j].interval.end);
        if (from[i].interval.end == end) ++i;
        if (to[j].interval.end == end) ++j;
    }
    return shared;
}

}  // namespace tpx
