// SPDX-License-Identifier: Apache-2.0
#include "lib/core/alternatives.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/layout.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <string_view>

namespace tpx {
namespace {

int* coordinate(Coordinates& at, std::string_view axis) {
    if (axis == "tp") return &at.tp;
    if (axis == "pp") return &at.pp;
    if (axis == "dp") return &at.dp;
    return &at.cp;
}

/// Calls `each(axis)` for the five axes of `order`, fastest first.
template <class Each>
void for_each_in_order(const Layout& layout, Each&& each) {
    for (std::size_t at = 0; at < layout.order.size(); at += 3) each(std::string_view{layout.order}.substr(at, 2));
}

/// Calls `each(axis, size)` for the axes of the dense grid, fastest first. Experts have a grid of their own over the
/// same ranks, so ep is not an axis here.
template <class Each>
void for_each_axis(const Layout& layout, Each&& each) {
    for_each_in_order(layout, [&](std::string_view axis) {
        if (axis == "tp") each(axis, layout.tp);
        if (axis == "pp") each(axis, layout.pp);
        if (axis == "dp") each(axis, layout.dp);
        if (axis == "cp") each(axis, layout.cp);
    });
}

/// The values of pp, up to twice the requested one, that split the layers evenly: "pp=1, 2 or 4".
std::string nearest_pp(const Layout& layout, int layers) {
    std::vector<int> fitting;
    for (int pp = 1; pp <= 2 * layout.pp; ++pp) {
        if (layers % (pp * layout.vpp) == 0) fitting.push_back(pp);
    }
    return fitting.empty() ? "vpp=1" : fmt::format("pp={}", alternatives(fitting));
}

/// A key that splits the layers across all model chunks as evenly as possible, with fewer at both ends:
/// "stages=[1,2,2,1]"; "stages=[...]" if there are fewer layers than chunks.
std::string nearest_stages(const Layout& layout, int layers) {
    const int chunks = layout.pp * layout.vpp;
    if (layers < chunks) return "stages=[...]";
    std::vector<int> sizes(chunks, layers / chunks);
    const int more = layers % chunks;
    for (int k = 0; k < more; ++k) ++sizes[(chunks - more) / 2 + k];
    return fmt::format("stages=[{}]", fmt::join(sizes, ","));
}

/// The layers that first= and last= leave to the other stages.
int layers_of_others(const Layout& layout, int layers) {
    const int fixed = layout.first.value_or(0) + layout.last.value_or(0);
    const int others = layout.pp - layout.first.has_value() - layout.last.has_value();
    const int rest = layers - fixed;
    if (fixed > 0 && rest < 0)
        throw Error{Exit::usage, "layout: the first and the last stage have {} layers, but the model has {}", fixed,
                    layers};
    if (fixed > 0 && others <= 0 && rest != 0)
        throw Error{Exit::usage,
                    "layout: the first and the last stage have {} of {} layers, and pp={} has no other stage", fixed,
                    layers, layout.pp};
    if (others < 0 || (others == 0 && rest != 0) || (others > 0 && rest % others != 0))
        throw Error{Exit::usage, "layout: {} layers cannot be split evenly across {} stages{}", rest, others,
                    fixed > 0 ? ""
                              : fmt::format("; use {}, or first=, last= or {}", nearest_pp(layout, layers),
                                            nearest_stages(layout, layers))};
    return rest;
}

/// Layers of each model chunk, in pipeline order: chunk c of stage p is number c * pp + p.
std::vector<int> layers_of_chunks(const Layout& layout, int layers) {
    if (!layout.stages.empty()) return layout.stages;
    const int others = layout.pp - layout.first.has_value() - layout.last.has_value();
    const int rest = layers_of_others(layout, layers);
    std::vector<int> stage(layout.pp, others > 0 ? rest / others : 0);
    if (layout.first) stage.front() = *layout.first;
    if (layout.last) stage.back() = *layout.last;
    std::vector<int> chunks;
    for (int chunk = 0; chunk < layout.vpp; ++chunk) {
        for (int count : stage) {
            if (count % layout.vpp != 0)
                throw Error{
                    Exit::usage,
                    "layout: {} layers of a stage cannot be split evenly across vpp={} model chunks; {} sets the "
                    "layers of each chunk",
                    count, layout.vpp, nearest_stages(layout, layers)};
            chunks.push_back(count / layout.vpp);
        }
    }
    return chunks;
}

}  // namespace

Coordinates coordinates(const Layout& layout, int rank) {
    Coordinates at;
    for_each_axis(layout, [&](std::string_view axis, int size) {
        *coordinate(at, axis) = rank % size;
        rank /= size;
    });
    return at;
}

int rank_at(const Layout& layout, const Coordinates& at) {
    Coordinates copy = at;
    int rank = 0;
    int step = 1;
    for_each_axis(layout, [&](std::string_view axis, int size) {
        rank += *coordinate(copy, axis) * step;
        step *= size;
    });
    return rank;
}

int tp_span(const Layout& layout) {
    int span = 1;
    bool is_inside = true;
    for_each_axis(layout, [&](std::string_view axis, int size) {
        if (is_inside) span *= size;
        is_inside = is_inside && axis != "tp";
    });
    return layout.tp == 1 ? 1 : span;
}

int expert_tp(const Layout& layout) { return layout.etp > 0 ? layout.etp : layout.tp; }

int expert_dp(const Layout& layout) {
    return std::max(1, layout.tp * layout.cp * layout.dp / (expert_tp(layout) * layout.ep));
}

int expert_fsdp(const Layout& layout) {
    if (layout.fsdp == 1) return 1;
    if (layout.efsdp > 0) return layout.efsdp;
    const int ranks = expert_dp(layout);
    if (ranks % layout.hsdp() != 0)
        throw Error{Exit::usage, "layout: the number of ranks with the same experts, {}, is not a multiple of hsdp={}",
                    ranks, layout.hsdp()};
    return ranks / layout.hsdp();
}

int expert_rank_at(const Layout& layout, const ExpertCoordinates& at) {
    int rank = 0;
    int step = 1;
    const auto add = [&](int digit, int size) {
        rank += digit * step;
        step *= size;
    };
    for_each_in_order(layout, [&](std::string_view axis) {
        if (axis == "tp") add(at.etp, expert_tp(layout));
        if (axis == "ep") add(at.ep, layout.ep);
        if (axis == "dp") add(at.dp, expert_dp(layout));
        if (axis == "pp") add(at.pp, layout.pp);
    });
    return rank;
}

std::vector<int> stages_of_layers(const Layout& layout, int layers) {
    const std::vector<int> chunks = layers_of_chunks(layout, layers);
    const int total = std::accumulate(chunks.begin(), chunks.end(), 0);
    if (total != layers) throw Error{Exit::usage, "layout: the stages hold {} layers, the model has {}", total, layers};
    std::vector<int> stages;
    for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk)
        stages.insert(stages.end(), static_cast<std::size_t>(chunks[chunk]), static_cast<int>(chunk) % layout.pp);
    return stages;
}

}  // namespace tpx
