// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/grid.hpp"

#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <string_view>

namespace tpx {
namespace {

/// Sets the steps of the axes of `grid` from their sizes; the first axis of `order` varies fastest.
void set_steps(Grid& grid, std::string_view order) {
    int step = 1;
    for (std::size_t at = 0; at < order.size(); at += 3) {
        const std::string_view name = order.substr(at, 2);
        Grid::Axis& axis = name == "tp"   ? grid.part
                           : name == "ep" ? grid.block
                           : name == "dp" ? grid.dp
                           : name == "cp" ? grid.cp
                                          : grid.stage;
        axis.step = step;
        step *= axis.size;
    }
}

Interval range(int only, int size) { return only >= 0 ? Interval{only, only + 1} : Interval{0, size}; }

std::vector<int> stages(const Grid& grid, int stage) {
    if (stage == Owner::both_ends && grid.stage.size > 1) return {0, grid.stage.size - 1};
    std::vector<int> list;
    const Interval all = range(std::max(stage, -1), grid.stage.size);
    for (Index k = all.begin; k < all.end; ++k) list.push_back(static_cast<int>(k));
    return list;
}

/// The offsets along dp and cp of the ranks that hold `shard`; -1: of all ranks.
std::vector<int> offsets_of_shard(const Grid& grid, int shard, Sharing sharing) {
    std::vector<int> offsets;
    if (shard >= 0 && sharing == Sharing::zero) {
        const bool cp_first = grid.cp.step < grid.dp.step;
        const int fast = cp_first ? grid.cp.size : grid.dp.size;
        const int cp = cp_first ? shard % fast : shard / fast;
        const int dp = cp_first ? shard / fast : shard % fast;
        return {dp * grid.dp.step + cp * grid.cp.step};
    }
    const bool split = shard >= 0 && sharing != Sharing::none;
    const int step = sharing == Sharing::virtual_nodes ? 1 : grid.fsdp_step;
    const int run = split ? step : grid.dp.size;
    const int period = split ? grid.shards(sharing) * step : grid.dp.size;
    for (int begin = split ? shard * run : 0; begin < grid.dp.size; begin += period) {
        for (int dp = begin; dp < begin + run; ++dp) {
            for (int cp = 0; cp < grid.cp.size; ++cp) offsets.push_back(dp * grid.dp.step + cp * grid.cp.step);
        }
    }
    return offsets;
}

}  // namespace

Sharing sharing_of(const Layout& layout, bool optimizer) {
    if (layout.zero >= 3 || (layout.zero > 0 && optimizer)) return Sharing::zero;
    return layout.fsdp > 1 ? Sharing::fsdp : Sharing::none;
}

Sharing stored_sharing(const Layout& layout) { return layout.fsdp > 1 ? Sharing::fsdp : Sharing::none; }

void Owner::restrict_to(const Owner& other) {
    const auto take = [](int& mine, int theirs) {
        if (theirs != any) mine = theirs;
    };
    take(stage, other.stage);
    take(block, other.block);
    take(part, other.part);
    take(shard, other.shard);
}

int Grid::replica(int rank) const {
    return cp.step < dp.step ? cp.of(rank) + cp.size * dp.of(rank) : dp.of(rank) + dp.size * cp.of(rank);
}

int Grid::shards(Sharing sharing) const {
    if (sharing == Sharing::none) return 1;
    if (sharing == Sharing::virtual_nodes) return dp.size;
    return sharing == Sharing::fsdp ? fsdp : replicas();
}

int Grid::shard(int rank, Sharing sharing) const {
    if (sharing == Sharing::none) return 0;
    if (sharing == Sharing::virtual_nodes) return dp.of(rank);
    return sharing == Sharing::fsdp ? dp.of(rank) / fsdp_step % fsdp : replica(rank);
}

std::vector<std::int32_t> Grid::ranks_of(const Owner& owner, Sharing sharing) const {
    std::vector<std::int32_t> ranks;
    const std::vector<int> offsets = offsets_of_shard(*this, owner.shard, sharing);
    const Interval blocks = range(owner.block, block.size);
    const Interval parts = range(owner.part, part.size);
    for (int at_stage : stages(*this, owner.stage)) {
        for (int offset : offsets) {
            for (Index b = blocks.begin; b < blocks.end; ++b) {
                for (Index p = parts.begin; p < parts.end; ++p)
                    ranks.push_back(
                        static_cast<std::int32_t>(at_stage * stage.step + offset + b * block.step + p * part.step));
            }
        }
    }
    if (!std::ranges::is_sorted(ranks)) std::ranges::sort(ranks);
    return ranks;
}

Grid dense_grid(const Layout& layout) {
    Grid grid{.part = {layout.tp},
              .stage = {layout.pp},
              .dp = {layout.dp},
              .cp = {layout.cp},
              .fsdp = layout.fsdp,
              .fsdp_step = layout.efsdp > 0 ? layout.hsdp() : 1};
    set_steps(grid, layout.order);
    return grid;
}

Grid expert_grid(const Layout& layout) {
    const int etp = expert_tp(layout);
    const int ranks = layout.tp * layout.cp * layout.dp;
    if (std::int64_t{etp} * layout.ep > ranks || ranks % (etp * layout.ep) != 0)
        throw Error{Exit::usage, "layout: ep={} times etp={} does not divide tp*cp*dp = {}", layout.ep, etp, ranks};
    Grid grid{.part = {etp},
              .stage = {layout.pp},
              .block = {layout.ep},
              .dp = {expert_dp(layout)},
              .fsdp = expert_fsdp(layout)};
    set_steps(grid, layout.order);
    const int dense_step = dense_grid(layout).stage.step;
    if (layout.pp > 1 && grid.stage.step != dense_step)
        throw Error{Exit::usage,
                    "layout: order={}: stages are {} apart for experts, {} for all other parameters; put pp last",
                    layout.order, counted(static_cast<std::uint64_t>(grid.stage.step), "rank"), dense_step};
    return grid;
}

Grid grid_of(const Layout& layout, bool of_experts) {
    const bool own = of_experts && (layout.ep > 1 || expert_tp(layout) != layout.tp);
    return own ? expert_grid(layout) : dense_grid(layout);
}

}  // namespace tpx
