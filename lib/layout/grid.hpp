// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/layout.hpp"

#include <compare>
#include <cstdint>
#include <vector>

namespace tpx {

/// The ranks across which a tensor is split once more, after tensor and expert parallelism.
enum class Sharing {
    none,
    fsdp,          ///< across the fsdp ranks of each replica
    zero,          ///< across all replicas
    virtual_nodes  ///< across the coordinates of dp: state of virtual nodes
};

/// How `layout` shards weights or, if `optimizer` is true, optimizer state.
Sharing sharing_of(const Layout& layout, bool optimizer);

/// How tensors are stored under `layout`: the shards of FSDP separately, those of ZeRO joined.
Sharing stored_sharing(const Layout& layout);

/// The ranks that hold something, by their coordinates on a grid.
struct Owner {
    static constexpr int any = -1;        ///< every coordinate
    static constexpr int both_ends = -2;  ///< of `stage`: the first and the last one

    int stage = any;
    int block = any;  ///< of experts
    int part = any;   ///< of tensor parallelism
    int shard = any;  ///< of FSDP or ZeRO

    /// Copies the coordinates that `other` restricts.
    void restrict_to(const Owner& other);

    friend auto operator<=>(const Owner&, const Owner&) = default;
};

/// How the ranks of a layout are numbered for one kind of tensors.
struct Grid {
    struct Axis {
        int size = 1;
        int step = 1;  ///< distance between ranks whose coordinates differ by one

        int of(int rank) const { return rank / step % size; }
    };
    Axis part;
    Axis stage;
    Axis block;
    Axis dp;
    Axis cp;
    int fsdp = 1;       ///< shards that FSDP makes of a tensor, a divisor of dp.size
    int fsdp_step = 1;  ///< this many consecutive coordinates of dp hold the same shard

    /// The number of ranks that hold the same part of the same parameters.
    int replicas() const { return dp.size * cp.size; }
    /// The position of `rank` among them, in rank order.
    int replica(int rank) const;
    /// The number of shards into which `sharing` splits a tensor.
    int shards(Sharing sharing) const;
    /// The shard that `rank` holds.
    int shard(int rank, Sharing sharing) const;
    /// The ranks of `owner`, ascending; `owner.shard` is a shard of `sharing`.
    std::vector<std::int32_t> ranks_of(const Owner& owner, Sharing sharing) const;
};

/// The grid of all tensors outside experts.
Grid dense_grid(const Layout& layout);

/// The grid of experts, over the same ranks and stages, as in megatron-core: etp takes the place of tp in `order`, and
/// dp covers the ranks that etp and ep leave of tp, cp and dp. Throws Error (usage) if etp * ep does not divide the
/// ranks of a stage, or if `order` would put a rank on different stages in the two grids.
Grid expert_grid(const Layout& layout);

/// The grid of a tensor: experts use expert_grid() if ep or etp makes it differ.
Grid grid_of(const Layout& layout, bool of_experts);

}  // namespace tpx
