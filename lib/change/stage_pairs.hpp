// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/model_state.hpp"
#include "lib/layout/shard_map.hpp"

#include <cstdint>
#include <vector>

namespace tpx {

/// Layers that move between two stages; empty for a tensor outside the layers. A stage may be Owner::both_ends.
struct StagePair {
    int from = 0;
    int to = 0;
    std::vector<int> layers;

    std::uint64_t count() const { return layers.empty() ? 1 : layers.size(); }
};

/// The layers of `kind` by the stages that hold them, sorted by stages.
std::vector<StagePair> stage_pairs(const TensorClass& kind, const ShardMap& from, const ShardMap& to);

}  // namespace tpx
