// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/grid.hpp"

#include "lib/core/error.hpp"

#include <string_view>
#include <utility>

namespace tpx {
namespace {

struct GridAxis {
    std::string_view name;
    int size;
};

/// The axes of a grid, fastest first.
using GridAxes = std::vector<GridAxis>;

GridAxes in_order(const Layout& layout, int tp, int ep, int dp, int cp) {
    GridAxes axes;
    for (std::size_t at = 0; at < layout.order.size(); at += 3) {
        const std::string_view name = std::string_view{layout.order}.substr(at, 2);
        for (const auto& [axis, size] : {GridAxis{"tp", tp}, GridAxis{"ep", ep}, GridAxis{"dp", dp}, GridAxis{"cp", cp},
                                         GridAxis{"pp", layout.pp}}) {
            if (axis == name) axes.push_back({name, size});
        }
    }
    return axes;
}

/// How far apart the ranks of neighbouring stages are.
int stage_step(const GridAxes& axes) {
    int step = 1;
    for (const GridAxis& axis : axes) {
        if (axis.name == "pp") break;
        step *= axis.size;
    }
    return step;
}

GridPlace place_of(const GridAxes& axes, int rank) {
    GridPlace place;
    int replicas = 1;
    for (const auto& [name, size] : axes) {
        const int digit = rank % size;
        rank /= size;
        if (name == "tp") place.part = digit;
        if (name == "pp") place.stage = digit;
        if (name == "ep") place.block = digit;
        if (name == "dp") place.dp = digit;
        if (name != "dp" && name != "cp") continue;
        place.replica += digit * replicas;
        replicas *= size;
    }
    return place;
}

std::vector<GridPlace> places(const Layout& layout, const GridAxes& axes) {
    std::vector<GridPlace> all;
    all.reserve(layout.ranks());
    for (int rank = 0; rank < layout.ranks(); ++rank) all.push_back(place_of(axes, rank));
    return all;
}

GridAxes dense_axes(const Layout& layout) { return in_order(layout, layout.tp, 1, layout.dp, layout.cp); }

}  // namespace

Grid dense_grid(const Layout& layout) {
    return {.parts = layout.tp,
            .stages = layout.pp,
            .blocks = 1,
            .replicas = layout.dp * layout.cp,
            .fsdp = layout.fsdp,
            .places = places(layout, dense_axes(layout))};
}

Grid expert_grid(const Layout& layout) {
    const int etp = layout.etp > 0 ? layout.etp : layout.tp;
    const int ranks = layout.tp * layout.cp * layout.dp;
    if (std::int64_t{etp} * layout.ep > ranks || ranks % (etp * layout.ep) != 0)
        throw Error{Exit::usage, "layout: ep={} times etp={} does not divide tp*cp*dp = {}", layout.ep, etp, ranks};
    const int dp = ranks / (etp * layout.ep);
    const GridAxes axes = in_order(layout, etp, layout.ep, dp, 1);
    const int dense_step = stage_step(dense_axes(layout));
    if (layout.pp > 1 && stage_step(axes) != dense_step)
        throw Error{Exit::usage,
                    "layout: order={}: stages are {} ranks apart for experts, {} for all else; with pp last they agree",
                    layout.order, stage_step(axes), dense_step};
    if (layout.efsdp > 0) throw Error{Exit::usage, "layout: efsdp= is for checkpoints; models are not planned so"};
    return {.parts = etp,
            .stages = layout.pp,
            .blocks = layout.ep,
            .replicas = dp,
            .fsdp = expert_fsdp(layout),
            .places = places(layout, axes)};
}

Sharing sharing_of(const Layout& layout, bool optimizer) {
    if (layout.zero >= 3 || (layout.zero > 0 && optimizer)) return Sharing::zero;
    return layout.fsdp > 1 ? Sharing::fsdp : Sharing::none;
}

int shards(const Grid& grid, Sharing sharing) {
    if (sharing == Sharing::none) return 1;
    return sharing == Sharing::fsdp ? grid.fsdp : grid.replicas;
}

int shard_at(const Grid& grid, const GridPlace& place, Sharing sharing) {
    if (sharing == Sharing::none) return 0;
    return sharing == Sharing::fsdp ? place.dp % grid.fsdp : place.replica;
}

}  // namespace tpx
