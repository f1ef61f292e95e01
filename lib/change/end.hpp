// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/grid.hpp"
#include "lib/layout/model.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace tpx {

/// One of the two layouts of a change, with its grids. `layout` must outlive it.
struct End {
    const Layout& layout;
    std::vector<int> stages;  ///< of each layer
    Grid dense;
    std::optional<Grid> experts;  ///< if the model has some

    const Grid& grid(bool of_experts) const { return of_experts ? *experts : dense; }
};

/// Throws Error (usage) "LAYOUT: ..." when `layout` cannot hold `model`.
End make_end(const ModelState& model, const Layout& layout);

/// The layers that go from one stage to another; none: one tensor without layer does. A stage may stand for both ends,
/// see Digits::both_ends().
struct StagePair {
    int from = 0;
    int to = 0;
    std::vector<int> layers;

    std::uint64_t count() const { return layers.empty() ? 1 : layers.size(); }
};

/// The layers of `kind` by the stages that they are on, sorted by these.
std::vector<StagePair> stage_pairs(const TensorClass& kind, const End& from, const End& to);

}  // namespace tpx
