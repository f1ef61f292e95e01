// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/layout.hpp"

#include <compare>
#include <cstdint>
#include <vector>

namespace tpx {

/// Among which ranks a tensor is split once more, after tensor and expert parallelism.
enum class Sharing {
    none,
    fsdp,          ///< among the fsdp ranks of each copy
    zero,          ///< among all replicas
    virtual_nodes  ///< among the coordinates of dp: state of virtual nodes
};

/// How `layout` shares weights or, with `optimizer`, optimizer state.
Sharing sharing_of(const Layout& layout, bool optimizer);

/// How tensors of `layout` are stored: the shards of FSDP apart, those of ZeRO together.
Sharing stored_sharing(const Layout& layout);

/// The ranks that hold something, by their coordinates on a grid.
struct Owner {
    static constexpr int any = -1;        ///< every coordinate
    static constexpr int both_ends = -2;  ///< of `stage`: the first and the last one

    int stage = any;
    int block = any;  ///< of experts
    int part = any;   ///< of tensor parallelism
    int shard = any;  ///< of FSDP or ZeRO

    /// Takes over the coordinates that `other` restricts.
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
    int fsdp_step = 1;  ///< this many neighbors along dp hold the same shard

    /// Ranks that hold the same part of the same parameters.
    int replicas() const { return dp.size * cp.size; }
    /// The position of `rank` among them, in rank order.
    int replica(int rank) const;
    /// Into how many shards `sharing` splits a tensor.
    int shards(Sharing sharing) const;
    /// The shard that `rank` holds.
    int shard(int rank, Sharing sharing) const;
    /// The ranks of `owner`, ascending; `sharing` says what its shard means.
    std::vector<std::int32_t> ranks_of(const Owner& owner, Sharing sharing) const;
};

/// The grid of all tensors outside experts.
Grid dense_grid(const Layout& layout);

/// The grid of experts, over the same ranks and stages, as in megatron-core: etp and ep take the places of tp and ep,
/// dp covers the remaining ranks of cp and dp. Throws Error (usage) when etp and ep do not divide the ranks of a stage,
/// or when `order` would put a rank on different stages in the two grids.
Grid expert_grid(const Layout& layout);

/// The grid of a tensor: experts use expert_grid() if ep or etp makes it differ.
Grid grid_of(const Layout& layout, bool of_experts);

}  // namespace tpx
