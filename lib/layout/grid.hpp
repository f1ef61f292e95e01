// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/layout.hpp"

#include <vector>

namespace tpx {

/// Where a rank stands on a grid.
struct GridPlace {
    int part = 0;     ///< which tensor-parallel part it has
    int stage = 0;    ///< which pipeline stage
    int block = 0;    ///< which block of experts
    int dp = 0;       ///< its data-parallel coordinate
    int replica = 0;  ///< which of the ranks that hold the same parameters, in their order
};

/// How the ranks of a layout are numbered for one kind of tensors. Experts have a grid of their own over the same ranks
/// and stages, as in megatron-core: cp is folded into dp, which is what etp and ep leave over.
struct Grid {
    int parts = 1;
    int stages = 1;
    int blocks = 1;
    int replicas = 1;
    int fsdp = 1;                   ///< of the replicas: over how many parameters are cut
    std::vector<GridPlace> places;  ///< by rank
};

/// The grid of all that belongs to no expert.
Grid dense_grid(const Layout& layout);

/// The grid of experts. Throws Error (usage) when etp and ep do not divide the ranks of a stage, or when `order` would
/// put a rank on different stages in the two grids.
Grid expert_grid(const Layout& layout);

/// Among whom a tensor is cut once more, after tensor and expert parallelism.
enum class Sharing {
    none,
    fsdp,  ///< among the fsdp ranks of each copy
    zero   ///< among all replicas
};

/// How `layout` shares the weights, or the optimizer's state.
Sharing sharing_of(const Layout& layout, bool optimizer);

/// Over how many shards; 1 when nothing is shared.
int shards(const Grid& grid, Sharing sharing);

/// Which of them a rank at `place` has.
int shard_at(const Grid& grid, const GridPlace& place, Sharing sharing);

}  // namespace tpx
