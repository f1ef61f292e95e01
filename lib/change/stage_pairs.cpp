// SPDX-License-Identifier: Apache-2.0
#include "lib/change/stage_pairs.hpp"

#include <map>
#include <utility>

namespace tpx {

std::vector<StagePair> stage_pairs(const TensorClass& kind, const ShardMap& from, const ShardMap& to) {
    if (kind.layers.empty()) {
        const TensorForm form = form_of(kind);
        return {{from.stage_of(form), to.stage_of(form), {}}};
    }
    std::map<std::pair<int, int>, std::vector<int>> layers;
    for (int layer : kind.layers) layers[{from.stage_of(layer), to.stage_of(layer)}].push_back(layer);
    std::vector<StagePair> pairs;
    for (auto& [stages, list] : layers) pairs.push_back({stages.first, stages.second, std::move(list)});
    return pairs;
}

}  // namespace tpx
