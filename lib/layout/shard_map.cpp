// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/shard_map.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/virtual_nodes.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <tuple>

namespace tpx {
namespace {

/// The name of the degree that splits tp_axis.
std::string_view degree_name(const Layout& layout, const TensorForm& form) {
    return form.experts > 0 && layout.etp > 0 ? "etp" : "tp";
}

Error cannot_split(Interval block, std::string_view degree, int parts) {
    return Error{Exit::usage,
                 "{} rows or columns cannot be split into {}={} equal parts; use {}={}",
                 block.size(),
                 degree,
                 parts,
                 degree,
                 fitting_degrees(block.size(), parts)};
}

/// The cuts of an axis of codes or scales, from the `cuts` of the weight: tp_stored elements belong to tp_unit elements
/// of the weight.
Cuts in_stored_units(Cuts cuts, const TensorForm& form, std::string_view degree, int parts) {
    const Index unit = form.tp_unit, stored = form.tp_stored;
    if (unit == 1 && stored == 1) return cuts;
    const Index end = form.tp_blocks.back().end;
    for (AxisCut& cut : cuts) {
        Interval& own = cut.interval;
        for (const Index place : {own.begin, own.end})
            if (place % unit != 0 && place != end)
                throw Error{
                    Exit::usage, "blocks of {} elements cannot be split across {}={} (a part would end at element {})",
                    unit,        degree,
                    parts,       place};
        own = {(own.begin + unit - 1) / unit * stored, (own.end + unit - 1) / unit * stored};
    }
    return cuts;
}

/// Removes padding beyond `size`, and cuts that become empty.
void clip(Cuts& cuts, Index size) {
    for (AxisCut& cut : cuts) cut.interval = intersect(cut.interval, {0, size});
    std::erase_if(cuts, [](const AxisCut& cut) { return cut.interval.empty(); });
}

void add_products(std::span<const Cuts> axes, const Shard& outer, std::vector<Shard>& out) {
    if (axes.empty()) return out.push_back(outer);
    for (const AxisCut& cut : axes.front()) {
        Shard inner = outer;
        inner.box.push_back(cut.interval);
        inner.owner.restrict_to(cut.owner);
        add_products(axes.subspan(1), inner, out);
    }
}

}  // namespace

ShardMap::ShardMap(const Layout& layout, const Cutting& cutting, std::vector<int> stages)
    : layout_{layout}, cutting_{cutting}, stages_{std::move(stages)} {}

int ShardMap::stage_of(int layer) const {
    return layer < std::ssize(stages_) ? stages_[static_cast<std::size_t>(layer)] : layout_.pp - 1;
}

int ShardMap::stage_of(const TensorForm& form) const {
    if (form.layer >= 0) return stage_of(form.layer);
    if (form.first && form.last && layout_.pp > 1) return Owner::both_ends;
    return form.last ? layout_.pp - 1 : 0;
}

Cuts ShardMap::layer_cuts(const TensorForm& form) const {
    const Index layers = form.shape[form.layer_axis];
    if (!cutting_.by_layer) return {{{0, layers}, {}}};
    Cuts cuts;
    for (Index layer = 0; layer < layers; ++layer)
        cuts.push_back({{layer, layer + 1}, {.stage = stage_of(static_cast<int>(layer))}});
    return cuts;
}

Cuts ShardMap::expert_cuts(const TensorForm& form) const {
    const Index block = form.experts / layout_.ep;
    const Index step = cutting_.by_layer && !cutting_.experts_together ? 1 : block;
    Cuts cuts;
    for (Index begin = 0; begin < form.experts; begin += step)
        cuts.push_back({{begin, begin + step}, {.block = static_cast<int>(begin / block)}});
    return cuts;
}

Cuts ShardMap::tp_cuts(const TensorForm& form, int parts) const {
    const auto padded = [&](Interval block) {
        const Index unit = std::max<Index>(form.pad * parts, 1);
        return Interval{block.begin, (block.end + unit - 1) / unit * unit};
    };
    // Megatron stores the blocks of a fused tensor separately even if one rank has all of them.
    const bool in_blocks = cutting_.equal && form.tp_blocks.size() > 1;
    if (parts == 1 && !in_blocks) return {{padded({0, form.tp_blocks.back().end}), {}}};
    Cuts cuts;
    for (Interval block : form.tp_blocks) {
        block = padded(block);
        if (cutting_.equal && block.size() % parts != 0) throw cannot_split(block, degree_name(layout_, form), parts);
        for (int part = 0; part < parts; ++part)
            cuts.push_back({chunk(block, parts, part), {.part = parts > 1 ? part : Owner::any}});
    }
    return cuts;
}

int ShardMap::zero_axis(const Shape& sizes, int index_axes, int shards) const {
    if (index_axes >= sizes.size()) return -1;
    const int second = index_axes + 1;
    return layout_.fsdp_dim == 1 && second < sizes.size() && sizes[second] % shards == 0 ? second : index_axes;
}

/// The axis that FSDP splits. As in torchtitan, it splits inside experts if a rank has fewer experts than there are
/// shards, or if FSDP inside experts has its own mesh axis.
int ShardMap::fsdp_axis(const TensorForm& form, const std::vector<Cuts>& cuts, int shards) const {
    if (cuts.size() < 2) return 0;
    if (form.experts > 0 && layout_.ep > 1)
        return layout_.efsdp > 0 || shards > cuts[0].front().interval.size() ? 1 : 0;
    const auto divides = [&](const AxisCut& cut) { return cut.interval.size() % shards == 0; };
    return layout_.fsdp_dim == 1 && std::ranges::all_of(cuts[1], divides) ? 1 : 0;
}

void ShardMap::share(std::vector<Cuts>& cuts, const TensorForm& form, Sharing sharing) const {
    const int shards = grid_of(layout_, form.experts > 0).shards(sharing);
    if (shards == 1 || cuts.empty()) return;
    Shape sizes;
    for (const Cuts& axis : cuts) sizes.push_back(axis.front().interval.size());
    const int axis = sharing == Sharing::virtual_nodes ? 0
                     : sharing == Sharing::fsdp
                         ? fsdp_axis(form, cuts, shards)
                         : zero_axis(sizes, (form.layer_axis >= 0 ? 1 : 0) + (form.expert_axis >= 0 ? 1 : 0), shards);
    if (axis < 0) return;
    Cuts finer;
    for (const AxisCut& cut : cuts[static_cast<std::size_t>(axis)]) {
        for (int shard = 0; shard < shards; ++shard) {
            finer.push_back({sharing == Sharing::virtual_nodes ? part(cut.interval, shards, shard)
                                                               : chunk(cut.interval, shards, shard),
                             cut.owner});
            finer.back().owner.shard = shard;
        }
    }
    cuts[static_cast<std::size_t>(axis)] = std::move(finer);
}

std::vector<Cuts> ShardMap::cuts(const TensorForm& form, Sharing sharing) const {
    if (form.experts % layout_.ep != 0)
        throw Error{Exit::usage, "{} experts cannot be split across ep={}; use ep={}", form.experts, layout_.ep,
                    fitting_degrees(form.experts, layout_.ep)};
    const bool splits = volume(form.shape) > 0;
    const int parts = form.tp_axis >= 0 ? grid_of(layout_, form.experts > 0).part.size : 1;
    std::vector<Cuts> cuts;
    for (int axis = 0; axis < form.shape.size(); ++axis) {
        if (splits && axis == form.layer_axis)
            cuts.push_back(layer_cuts(form));
        else if (splits && axis == form.expert_axis)
            cuts.push_back(expert_cuts(form));
        else if (splits && axis == form.tp_axis)
            cuts.push_back(in_stored_units(tp_cuts(form, parts), form, degree_name(layout_, form), parts));
        else
            cuts.push_back({{{0, form.shape[axis]}, {}}});
    }
    if (!splits) return cuts;
    if (!form.replicated) share(cuts, form, sharing);
    for (int axis = 0; axis < form.shape.size(); ++axis) clip(cuts[static_cast<std::size_t>(axis)], form.shape[axis]);
    return cuts;
}

Owner ShardMap::owner_of_all(const TensorForm& form) const {
    Owner owner;
    if (form.virtual_node >= 0 && layout_.vn > 0) {
        if (form.virtual_node >= layout_.vn)
            throw Error{Exit::usage, "is state of virtual node {}, but the layout has vn={}", form.virtual_node,
                        layout_.vn};
        return {.shard = dp_of_virtual_node(layout_, form.virtual_node)};
    }
    if (!cutting_.by_layer || form.layer_axis < 0) owner.stage = stage_of(form);
    if (form.experts > 0 && form.expert_axis < 0)
        owner.block = static_cast<int>(form.expert * layout_.ep / form.experts);
    return owner;
}

std::vector<Shard> ShardMap::shards(const TensorForm& form, Sharing sharing) const {
    std::vector<Shard> shards;
    add_products(cuts(form, sharing),
                 {.box = {},
                  .owner = owner_of_all(form),
                  .of_experts = form.experts > 0,
                  .of_virtual_node = form.virtual_node >= 0 && layout_.vn > 0},
                 shards);
    const auto order = [&](const Shard& shard) {
        const auto at = [&](int axis) { return axis >= 0 ? shard.box[axis].begin : 0; };
        return std::tuple{at(form.layer_axis), at(form.expert_axis), shard.owner.part};
    };
    std::ranges::stable_sort(shards, {}, order);
    return shards;
}

std::vector<Shard> ShardMap::shards(const Reading& reading, const Tensor& tensor, const Meaning& meaning,
                                    Sharing sharing) const {
    const TensorForm form = form_of(reading, tensor, meaning);
    return in_context([&] { return fmt::format("tensor '{}'", tensor.name); }, [&] { return shards(form, sharing); });
}

std::vector<std::int32_t> ShardMap::ranks(const Shard& shard, Sharing sharing) const {
    return grid_of(layout_, shard.of_experts)
        .ranks_of(shard.owner, shard.of_virtual_node ? Sharing::virtual_nodes : sharing);
}

}  // namespace tpx
