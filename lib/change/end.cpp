// SPDX-License-Identifier: Apache-2.0
#include "lib/change/end.hpp"

#include "lib/change/model_check.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tpx {
namespace {

int stage_of(const End& end, int layer) {
    return layer < std::ssize(end.stages) ? end.stages[layer] : end.layout.pp - 1;
}

int stage_of(const End& end, const TensorClass& kind) {
    if (kind.first && kind.last && end.layout.pp > 1) return end.layout.pp;  // Digits::both_ends()
    return kind.last ? end.layout.pp - 1 : 0;
}

}  // namespace

End make_end(const ModelState& model, const Layout& layout) {
    check_cuts(model, layout);
    return in_context([&] { return to_string(layout); },
                      [&] {
                          End end{layout, {}, dense_grid(layout), {}};
                          if (model.layers > 0) end.stages = stages_of_layers(layout, model.layers);
                          const auto is_expert = [](const TensorClass& kind) { return kind.experts > 0; };
                          if (std::ranges::any_of(model.classes, is_expert)) end.experts = expert_grid(layout);
                          return end;
                      });
}

std::vector<StagePair> stage_pairs(const TensorClass& kind, const End& from, const End& to) {
    if (kind.layers.empty()) return {{stage_of(from, kind), stage_of(to, kind), {}}};
    std::map<std::pair<int, int>, std::vector<int>> layers;
    for (int layer : kind.layers) layers[{stage_of(from, layer), stage_of(to, layer)}].push_back(layer);
    std::vector<StagePair> pairs;
    for (auto& [stages, list] : layers) pairs.push_back({stages.first, stages.second, std::move(list)});
    return pairs;
}

}  // namespace tpx
