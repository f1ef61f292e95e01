// SPDX-License-Identifier: Apache-2.0
#include "lib/check/model_needs.hpp"

#include "lib/core/dtype.hpp"
#include "lib/core/error.hpp"

#include <algorithm>

namespace tpx {

std::size_t ModelNeeds::Hash::operator()(const RankGroup& g) const {
    std::uint64_t state = g.experts * 4u + g.by_dp * 2u + g.shared_all;
    for (std::int32_t digit : {g.stage, g.other, g.block, g.part, g.shard}) {
        state = (state ^ static_cast<std::uint32_t>(digit)) * 0x9e3779b97f4a7c15;
        state ^= state >> 29;
    }
    return state;
}

ModelNeeds::End ModelNeeds::make_end(const std::string& text, const ModelTables& model, std::size_t ranks) {
    const Degrees degrees = read_degrees(text);
    if (degrees.ranks() != static_cast<std::int64_t>(ranks))
        throw failure("layout {} has {} ranks, {} are listed", text, degrees.ranks(), ranks);
    const bool has_experts = std::ranges::any_of(model.classes.experts, [](std::uint64_t n) { return n > 0; });
    // Experts have a grid of their own only if ep or etp requires one.
    const bool own = has_experts && (degrees.ep > 1 || degrees.etp != degrees.tp);
    End end{degrees, RankGrid{degrees, false}, RankGrid{degrees, own},
            Stages{degrees, static_cast<std::int64_t>(model.layers)}};
    if (own && degrees.pp > 1 && end.dense.stage_step() != end.experts.stage_step())
        throw failure("layout {}: experts are on other stages than the rest", text);
    return end;
}

ModelNeeds::ModelNeeds(const PlanTables& tables, ParcelChecker& checker)
    : hosts_{*tables.hosts},
      model_{*tables.model},
      classes_{model_.classes},
      checker_{checker},
      old_{make_end(tables.from, model_, hosts_.old_ranks.host.size())},
      new_{make_end(tables.to, model_, hosts_.new_devices.size())},
      crossings_(classes_.name.size()) {
    for (std::size_t r = 0; r < hosts_.roles.name.size(); ++r) {
        const int size = itemsize(dtype_by_name(hosts_.roles.dtype[r]).value());
        if (size == 0) throw failure("roles/dtype: elements of {} are not whole bytes", hosts_.roles.dtype[r]);
        itemsizes_.push_back(static_cast<std::uint64_t>(size));
        optimizer_.push_back(hosts_.roles.name[r] != "weight");
        virtual_role_.push_back(hosts_.roles.name[r] == "virtual_node");
    }
    virtual_class_.resize(classes_.name.size());
    for (std::uint32_t kind : model_.virtual_nodes) virtual_class_[kind] = true;
    check_size();
    check_virtual_nodes();
    if (hosts_.tensors != classes_.name) throw failure("parcels/names: differ from the names of the classes");
    for (std::size_t kind = 0; kind < classes_.name.size(); ++kind) {
        for (const End* end : {&new_, &old_}) {
            for (bool optimizer : {false, true}) cuttings_.push_back(cutting(*end, kind, optimizer));
        }
        add_crossings(kind);
    }
}

void ModelNeeds::check_size() const {
    std::uint64_t each = 1;
    for (std::uint64_t bytes : itemsizes_) each += bytes;
    double bytes = 0;
    for (std::size_t kind = 0; kind < classes_.name.size(); ++kind) {
        const auto layers = static_cast<double>(classes_.layers.begin[kind + 1] - classes_.layers.begin[kind]);
        double product = static_cast<double>(each) * std::max(layers, 1.0) *
                         static_cast<double>(std::max<std::uint64_t>(classes_.experts[kind], 1));
        for (int axis = 0; axis < axes(kind); ++axis) product *= static_cast<double>(size(kind, axis));
        bytes += product;
    }
    if (!(bytes < 0x1p62)) throw failure("classes: more than 2^62 bytes");
}

void ModelNeeds::check_virtual_nodes() const {
    for (std::uint32_t kind : model_.virtual_nodes) {
        if (axes(kind) == 0 || classes_.tp_axis[kind] >= 0 || classes_.experts[kind] > 0)
            throw failure("class '{}': not the state of virtual nodes", classes_.name[kind]);
        for (const End* end : {&old_, &new_}) {
            if (size(kind, 0) != end->degrees.vn || end->degrees.vn % end->degrees.dp != 0)
                throw failure("class '{}': {} virtual nodes with vn={} and dp={}", classes_.name[kind], size(kind, 0),
                              end->degrees.vn, end->degrees.dp);
        }
    }
}

void ModelNeeds::add_crossings(std::size_t kind) {
    auto& by_stage = crossings_[kind];
    const std::uint64_t begin = classes_.layers.begin[kind];
    const std::uint64_t end = classes_.layers.begin[kind + 1];
    if (begin == end) {
        const auto [old_stage, old_other] = end_stages(old_, kind);
        const auto [new_stage, new_other] = end_stages(new_, kind);
        by_stage[new_stage] = {{old_stage, old_other, new_stage, new_other, 1}};
        by_stage[new_other] = by_stage[new_stage];
        return;
    }
    std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> counts;
    for (std::uint64_t i = begin; i < end; ++i) {
        const std::int32_t layer = classes_.layers.values[i];
        ++counts[{static_cast<std::int32_t>(new_.stages.of(layer)), static_cast<std::int32_t>(old_.stages.of(layer))}];
    }
    for (const auto& [stages, count] : counts)
        by_stage[stages.first].push_back({stages.second, stages.second, stages.first, stages.first, count});
}

std::pair<std::int32_t, std::int32_t> ModelNeeds::end_stages(const End& end, std::size_t kind) const {
    const auto last = static_cast<std::int32_t>(end.degrees.pp - 1);
    if (classes_.last[kind] == 0) return {0, 0};
    return {classes_.first[kind] != 0 ? 0 : last, last};
}

ModelNeeds::Cutting ModelNeeds::cutting(const End& end, std::size_t kind, bool optimizer) const {
    const RankGrid& grid = end.grid(classes_.experts[kind] > 0);
    if (classes_.experts[kind] % static_cast<std::uint64_t>(grid.blocks()) != 0)
        throw failure("class '{}': {} experts in {} blocks", classes_.name[kind], classes_.experts[kind],
                      grid.blocks());
    Cutting cut{.shared_all = false,
                .by_expert = false,
                .by_dp = virtual_class_[kind],
                .parts = 1,
                .shards = 1,
                .shard_axis = 0,
                .part_size = 0};
    const int tp_axis = classes_.tp_axis[kind];
    if (tp_axis >= 0) {
        cut.parts = grid.parts();
        const std::int64_t unit = static_cast<std::int64_t>(std::max<std::uint64_t>(classes_.pad[kind], 1)) * cut.parts;
        const std::int64_t rows = size(kind, tp_axis);
        if (classes_.pad[kind] == 0 && rows % unit != 0)
            throw failure("class '{}': {} rows in {} parts", classes_.name[kind], rows, cut.parts);
        cut.part_size = (rows + unit - 1) / unit * unit / cut.parts;
    }
    if (cut.by_dp) {
        cut.shards = grid.dp_ranks();
        return cut;
    }
    const bool of_experts = classes_.experts[kind] > 0;
    cut.shared_all = end.degrees.zero >= (optimizer ? 1 : 3);
    if (axes(kind) == 0 && (cut.shared_all || !of_experts)) return cut;
    cut.shards = grid.shards(cut.shared_all);
    const auto divides = [&](int axis) {
        return axis < axes(kind) && whole_part(cut, kind, axis, 0).size() % cut.shards == 0;
    };
    if (of_experts && !cut.shared_all) {
        // FSDP sees the experts of a block as axis 0 of one tensor.
        const bool few = cut.shards > experts(end, kind, 0).size() && axes(kind) > 0;
        cut.by_expert = !(grid.blocks() > 1 ? few : end.degrees.fsdp_dim == 1 && divides(0));
        return cut;
    }
    cut.shard_axis = end.degrees.fsdp_dim == 1 && divides(1) ? 1 : 0;
    return cut;
}

Interval ModelNeeds::whole_part(const Cutting& cut, std::size_t kind, int axis, std::int64_t part) const {
    if (axis != classes_.tp_axis[kind]) return {0, size(kind, axis)};
    return {part * cut.part_size, (part + 1) * cut.part_size};
}

Interval ModelNeeds::shard_of(const Cutting& cut, Interval all, std::int64_t shard) {
    const std::int64_t step = (all.size() + cut.shards - 1) / cut.shards;
    const std::int64_t begin = std::min(all.begin + shard * step, all.end);
    return {begin, std::min(begin + step, all.end)};
}

Interval ModelNeeds::side(const Cutting& cut, std::size_t kind, int axis, std::int64_t part, std::int64_t shard) const {
    Interval interval = whole_part(cut, kind, axis, part);
    if (cut.shards > 1 && !cut.by_expert && axis == cut.shard_axis) interval = shard_of(cut, interval, shard);
    const std::int64_t end = size(kind, axis);
    return {std::min(interval.begin, end), std::min(interval.end, end)};
}

Box ModelNeeds::box(const Cutting& cut, std::size_t kind, std::int64_t part, std::int64_t shard) const {
    Box box;
    for (int axis = 0; axis < axes(kind); ++axis) box.push_back(side(cut, kind, axis, part, shard));
    return box;
}

Interval ModelNeeds::experts(const End& end, std::size_t kind, std::int64_t block) const {
    const auto all = static_cast<std::int64_t>(classes_.experts[kind]);
    if (all == 0) return {0, 1};
    const std::int64_t each = all / end.experts.blocks();
    return {block * each, (block + 1) * each};
}

std::uint32_t ModelNeeds::set(const SetNumbers& sets, Groups& known, const End& end, RankGroup group) const {
    if (group.shard < 0) group.shared_all = group.by_dp = false;
    const auto found = known.find(group);
    if (found != known.end()) return found->second;
    const std::vector<std::int32_t> ranks = end.grid(group.experts).ranks(group);
    const std::optional<std::uint32_t> number = sets.find(ranks);
    if (!number)
        throw failure("{} ranks from {} to {} have the same bytes, but the file has no set of these ranks",
                      ranks.size(), ranks.front(), ranks.back());
    known.emplace(group, *number);
    return *number;
}

void ModelNeeds::add(std::int32_t rank) {
    for (std::size_t kind = 0; kind < classes_.name.size(); ++kind) {
        for (bool optimizer : {false, true}) {
            if (has_any(kind, optimizer)) add(rank, kind, optimizer);
        }
    }
}

bool ModelNeeds::has_any(std::size_t kind, bool optimizer) const {
    for (std::size_t role = 0; role < optimizer_.size(); ++role) {
        if (optimizer_[role] == optimizer && has(kind, role)) return true;
    }
    return false;
}

void ModelNeeds::add(std::int32_t rank, std::size_t kind, bool optimizer) {
    const bool of_experts = classes_.experts[kind] > 0;
    const RankGrid& grid = new_.grid(of_experts);
    const auto here = crossings_[kind].find(static_cast<std::int32_t>(grid.stage(rank)));
    if (here == crossings_[kind].end()) return;
    const Cutting& now = cut(false, kind, optimizer);
    const std::int64_t part = now.parts > 1 ? grid.part(rank) : 0;
    const std::int64_t own = now.by_dp ? grid.dp(rank) : grid.shard(rank, now.shared_all);
    const std::int64_t shard = now.shards > 1 ? own : 0;
    const auto block = static_cast<std::int32_t>(of_experts ? grid.block(rank) : 0);
    const Crossing& any = here->second.front();
    const Wanted wanted{
        .kind = kind,
        .optimizer = optimizer,
        .box = box(now, kind, part, shard),
        .experts = now.by_expert ? shard_of(now, experts(new_, kind, block), shard) : experts(new_, kind, block),
        .crossings = &here->second,
        .needers = {.experts = of_experts,
                    .shared_all = now.shared_all,
                    .by_dp = now.by_dp,
                    .stage = any.new_stage,
                    .other = any.new_other,
                    .block = block,
                    .part = now.parts > 1 ? static_cast<std::int32_t>(part) : -1,
                    .shard = now.shards > 1 ? static_cast<std::int32_t>(shard) : -1}};
    if (!empty(wanted.box) && !wanted.experts.empty()) add_parts(wanted);
}

void ModelNeeds::add_parts(const Wanted& wanted) {
    const Cutting& old = cut(true, wanted.kind, wanted.optimizer);
    if (old.parts == 1) return add_shards(wanted, old, 0);
    const Interval rows = wanted.box[classes_.tp_axis[wanted.kind]];
    for (std::int64_t part = rows.begin / old.part_size; part * old.part_size < rows.end; ++part)
        add_shards(wanted, old, part);
}

void ModelNeeds::add_shards(const Wanted& wanted, const Cutting& old, std::int64_t part) {
    if (old.shards == 1 || old.by_expert) return add_piece(wanted, old, part, 0);
    const Interval all = whole_part(old, wanted.kind, old.shard_axis, part);
    const Interval rows = intersect(all, wanted.box[old.shard_axis]);
    const std::int64_t step = (all.size() + old.shards - 1) / old.shards;
    for (std::int64_t shard = (rows.begin - all.begin) / step; all.begin + shard * step < rows.end; ++shard)
        add_piece(wanted, old, part, shard);
}

void ModelNeeds::add_piece(const Wanted& wanted, const Cutting& old, std::int64_t part, std::int64_t shard) {
    const Box held = box(old, wanted.kind, part, shard);
    const auto elements = static_cast<std::uint64_t>(volume(intersect(held, wanted.box)));
    if (elements == 0) return;
    RankGroup group{.experts = wanted.needers.experts,
                    .shared_all = old.shared_all,
                    .by_dp = old.by_dp,
                    .part = old.parts > 1 ? static_cast<std::int32_t>(part) : -1,
                    .shard = old.shards > 1 ? static_cast<std::int32_t>(shard) : -1};
    const std::int64_t each = experts(old_, wanted.kind, 0).size();
    for (std::int64_t block = wanted.experts.begin / each; block * each < wanted.experts.end; ++block) {
        group.block = static_cast<std::int32_t>(block);
        const Interval all = experts(old_, wanted.kind, block);
        const auto add = [&](Interval here) {
            const auto both = static_cast<std::uint64_t>(intersect(wanted.experts, here).size());
            if (both > 0) add_block(wanted, group, elements * both, held != wanted.box);
        };
        if (!old.by_expert || old.shards == 1) {
            add(all);
            continue;
        }
        for (std::int64_t k = 0; k < old.shards; ++k) {
            group.shard = static_cast<std::int32_t>(k);
            add(shard_of(old, all, k));
        }
    }
}

void ModelNeeds::add_block(const Wanted& wanted, RankGroup group, std::uint64_t elements, bool recut) {
    const std::uint32_t needers = set(checker_.needers(), new_groups_, new_, wanted.needers);
    for (const Crossing& crossing : *wanted.crossings) {
        group.stage = crossing.old_stage;
        group.other = crossing.old_other;
        const std::uint32_t holders = set(checker_.holders(), old_groups_, old_, group);
        const std::uint64_t count = elements * static_cast<std::uint64_t>(crossing.layers);
        for (std::uint32_t role = 0; role < itemsizes_.size(); ++role) {
            if (optimizer_[role] == wanted.optimizer && has(wanted.kind, role))
                checker_.add(holders, needers, role, recut, static_cast<std::uint32_t>(wanted.kind), count,
                             static_cast<std::uint32_t>(itemsizes_[role]));
        }
    }
}

}  // namespace tpx
