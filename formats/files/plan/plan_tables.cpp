// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/plan_tables.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <array>

namespace tpx::formats {
namespace {

constexpr std::array states{std::pair{"memory", StateMedium::memory}, std::pair{"stores", StateMedium::stores},
                            std::pair{"shared", StateMedium::shared}};

// Appends `get` of each of `rows` to `column`.
template <class T, class Rows, class Get>
void fill(std::vector<T>& column, const Rows& rows, Get get) {
    column.reserve(rows.size());
    for (const auto& row : rows) column.push_back(static_cast<T>(get(row)));
}

ListColumn lists(const RankSets& sets) {
    ListColumn column{{0}, {}};
    column.begin.reserve(sets.size() + std::size_t{1});
    for (std::uint32_t k = 0; k < sets.size(); ++k) {
        column.values.insert(column.values.end(), sets[k].begin(), sets[k].end());
        column.begin.push_back(column.values.size());
    }
    return column;
}

RankSets sets(const ListColumn& column, std::string_view name) {
    RankSets made;
    const std::span<const std::int32_t> values = column.values;
    for (std::uint32_t k = 0; k + 1 < column.begin.size(); ++k) {
        if (made.add(values.subspan(column.begin[k], column.begin[k + 1] - column.begin[k])) != k)
            throw failure("{}: set {} appears twice", name, k);
    }
    return made;
}

std::optional<double> rate(double stored) { return stored > 0 ? std::optional{stored} : std::nullopt; }

void put_hosts(const Change& plan, HostTables& tables) {
    auto& to = tables.hosts;
    fill(to.name, plan.hosts, [](const Host& h) { return h.name; });
    fill(to.gpus, plan.hosts, [](const Host& h) { return h.gpus; });
    fill(to.nic, plan.hosts, [](const Host& h) { return h.nic.value_or(0); });
    fill(to.disk_read, plan.hosts, [](const Host& h) { return h.disk_read.value_or(0); });
    fill(to.disk_write, plan.hosts, [](const Host& h) { return h.disk_write.value_or(0); });
    fill(to.memory, plan.hosts, [](const Host& h) { return h.memory.value_or(0); });
    fill(to.switch_group, plan.hosts, [](const Host& h) { return h.switch_group; });
    fill(to.rails, plan.hosts, [](const Host& h) { return h.rails; });
    fill(to.lost, plan.hosts, [](const Host& h) { return h.lost; });
    fill(to.spare, plan.hosts, [](const Host& h) { return h.spare; });
    to.price = plan.placement.host_prices;
    const std::vector<std::int32_t> firsts = first_devices(plan.hosts);
    for (std::size_t h = 0; h < plan.hosts.size(); ++h) {
        for (int device : plan.hosts[h].lost_devices)
            tables.lost_devices.push_back(static_cast<std::uint32_t>(firsts[h] + device));
    }
    fill(tables.loads.disk_read, plan.relocation.hosts, [](const Load& l) { return l.disk_read; });
    fill(tables.loads.disk_write, plan.relocation.hosts, [](const Load& l) { return l.disk_write; });
    fill(tables.loads.nic_in, plan.relocation.hosts, [](const Load& l) { return l.nic_in; });
    fill(tables.loads.nic_out, plan.relocation.hosts, [](const Load& l) { return l.nic_out; });
    fill(tables.loads.memory, plan.relocation.hosts, [](const Load& l) { return l.memory; });
}

void get_hosts(const HostTables& tables, Change& plan) {
    const auto& from = tables.hosts;
    for (std::size_t h = 0; h < from.name.size(); ++h) {
        plan.hosts.push_back({.name = from.name[h],
                              .gpus = static_cast<int>(from.gpus[h]),
                              .nic = rate(from.nic[h]),
                              .disk_read = rate(from.disk_read[h]),
                              .disk_write = rate(from.disk_write[h]),
                              .memory = rate(from.memory[h]),
                              .switch_group = from.switch_group[h],
                              .rails = static_cast<int>(from.rails[h]),
                              .lost = from.lost[h] != 0,
                              .spare = from.spare[h] != 0});
        const auto& loads = tables.loads;
        plan.relocation.hosts.push_back(
            {loads.disk_read[h], loads.disk_write[h], loads.nic_in[h], loads.nic_out[h], loads.memory[h]});
    }
    plan.placement.host_prices = from.price;
    const std::vector<std::int32_t> firsts = first_devices(plan.hosts);
    for (std::uint32_t lost : tables.lost_devices) {
        const auto device = static_cast<std::int32_t>(lost);
        const auto host = std::ranges::upper_bound(firsts, device) - firsts.begin() - 1;
        plan.hosts[static_cast<std::size_t>(host)].lost_devices.push_back(device - firsts[host]);
    }
}

void put_parcels(const Parcels& parcels, HostTables& tables) {
    tables.holders = lists(parcels.holders);
    tables.needers = lists(parcels.needers);
    tables.roles.name = names_of(parcels.roles);
    tables.tensors = parcels.tensors;
    auto& to = tables.parcels;
    fill(to.holders, parcels.parcels, [](const Parcel& p) { return p.holders; });
    fill(to.needers, parcels.parcels, [](const Parcel& p) { return p.needers; });
    fill(to.role, parcels.parcels, [](const Parcel& p) { return p.role; });
    fill(to.tensor, parcels.parcels, [](const Parcel& p) { return p.tensor; });
    fill(to.recut, parcels.parcels, [](const Parcel& p) { return p.recut; });
    fill(to.bytes, parcels.parcels, [](const Parcel& p) { return p.bytes; });
    fill(to.element, parcels.parcels, [](const Parcel& p) { return p.element; });
}

void get_parcels(const HostTables& tables, Parcels& parcels) {
    parcels.old_ranks = static_cast<int>(tables.old_ranks.host.size());
    parcels.new_ranks = static_cast<int>(tables.new_devices.size());
    parcels.roles = roles_by_name(tables.roles.name);
    parcels.tensors = tables.tensors;
    parcels.holders = sets(tables.holders, "holders");
    parcels.needers = sets(tables.needers, "needers");
    const auto& from = tables.parcels;
    parcels.parcels.reserve(from.bytes.size());
    for (std::size_t p = 0; p < from.bytes.size(); ++p)
        parcels.parcels.push_back({from.holders[p], from.needers[p], from.role[p], from.tensor[p], from.recut[p] != 0,
                                   from.bytes[p], from.element[p]});
}

void put_placement(const Placement& placement, HostTables& tables) {
    tables.new_devices = placement.devices;
    tables.pinned = static_cast<std::uint64_t>(placement.placed_for);
    tables.group = static_cast<std::uint64_t>(placement.group);
    tables.crossing = placement.crossing;
    tables.group_bound = placement.group_bound;
    tables.group_prices = placement.group_prices;
    auto& to = tables.blocks;
    fill(to.begin, placement.blocks, [](const Block& b) { return b.begin; });
    fill(to.end, placement.blocks, [](const Block& b) { return b.end; });
    fill(to.host, placement.blocks, [](const Block& b) { return b.host; });
    fill(to.price, placement.blocks, [](const Block& b) { return b.price; });
}

void get_placement(const HostTables& tables, Placement& placement) {
    placement.devices = tables.new_devices;
    placement.placed_for = static_cast<PlacementGoal>(tables.pinned);
    placement.group = static_cast<int>(tables.group);
    placement.crossing = tables.crossing;
    placement.group_bound = tables.group_bound;
    placement.group_prices = tables.group_prices;
    const auto& from = tables.blocks;
    for (std::size_t b = 0; b < from.begin.size(); ++b)
        placement.blocks.push_back({static_cast<std::int32_t>(from.begin[b]), static_cast<std::int32_t>(from.end[b]),
                                    from.host[b], from.price[b]});
}

void put_relocation(const Relocation& relocation, HostTables& tables) {
    const BytesBySource& total = relocation.total;
    tables.total = {total.needed, total.kept, total.local, total.same_host, total.other_host, total.storage};
    auto& roles = tables.roles;
    fill(roles.needed, relocation.roles, [](const BytesBySource& b) { return b.needed; });
    fill(roles.kept, relocation.roles, [](const BytesBySource& b) { return b.kept; });
    fill(roles.local, relocation.roles, [](const BytesBySource& b) { return b.local; });
    fill(roles.same_host, relocation.roles, [](const BytesBySource& b) { return b.same_host; });
    fill(roles.other_host, relocation.roles, [](const BytesBySource& b) { return b.other_host; });
    fill(roles.storage, relocation.roles, [](const BytesBySource& b) { return b.storage; });
    auto& to = tables.transfers;
    fill(to.parcel, relocation.transfers, [](const Transfer& t) { return t.parcel; });
    fill(to.from, relocation.transfers, [](const Transfer& t) { return t.from; });
    fill(to.to, relocation.transfers, [](const Transfer& t) { return t.to; });
    fill(to.begin, relocation.transfers, [](const Transfer& t) { return t.begin; });
    fill(to.end, relocation.transfers, [](const Transfer& t) { return t.end; });
    fill(to.round, relocation.transfers, [](const Transfer& t) { return t.round; });
    fill(to.forwards, relocation.transfers, [](const Transfer& t) { return t.forwards; });
    fill(to.from_rank, relocation.transfers, [](const Transfer& t) { return t.from_rank; });
    fill(to.to_rank, relocation.transfers, [](const Transfer& t) { return t.to_rank; });
    tables.rounds = relocation.rounds;
    tables.window = relocation.window;
    tables.loads.staging = relocation.staging;
    tables.bound = relocation.bound;
    tables.sending_hosts = relocation.sending.hosts;
    tables.sending_disks = relocation.sending.disks;
    tables.sending_bytes = relocation.sending.bytes;
    tables.sending_seconds = relocation.sending.seconds;
}

void get_relocation(const HostTables& tables, Relocation& relocation) {
    const auto& total = tables.total;
    relocation.total = {total.needed, total.kept, total.local, total.same_host, total.other_host, total.storage};
    const auto& roles = tables.roles;
    for (std::size_t r = 0; r < roles.name.size(); ++r)
        relocation.roles.push_back({roles.needed[r], roles.kept[r], roles.local[r], roles.same_host[r],
                                    roles.other_host[r], roles.storage[r]});
    const auto& from = tables.transfers;
    relocation.transfers.reserve(from.parcel.size());
    for (std::size_t t = 0; t < from.parcel.size(); ++t) {
        relocation.transfers.push_back({from.parcel[t], from.from[t], from.to[t], from.begin[t], from.end[t],
                                        from.round[t], from.forwards[t] != 0});
        if (from.to_rank.empty()) continue;
        relocation.transfers.back().from_rank = from.from_rank[t];
        relocation.transfers.back().to_rank = from.to_rank[t];
    }
    relocation.rounds = static_cast<std::uint32_t>(tables.rounds);
    relocation.window = tables.window;
    relocation.staging = tables.loads.staging;
    relocation.bound = tables.bound;
    relocation.sending = {tables.sending_hosts, tables.sending_disks, tables.sending_bytes, tables.sending_seconds};
}

void put_sources(const std::vector<StateSource>& sources, HostTables& tables) {
    for (const StateSource& source : sources) {
        if (!source.iteration) continue;
        tables.sources.host.push_back(source.host);
        tables.sources.iteration.push_back(*source.iteration);
    }
}

void get_sources(const HostTables& tables, std::vector<StateSource>& sources) {
    for (std::size_t i = 0; i < tables.sources.host.size(); ++i)
        sources.push_back({tables.sources.host[i], tables.sources.iteration[i]});
}

}  // namespace

ModelTables to_tables(const ModelState& model) {
    ModelTables tables;
    tables.layers = static_cast<std::uint64_t>(model.layers);
    for (const TensorClass& kind : model.classes)
        tables.widest = std::max(tables.widest, static_cast<std::uint64_t>(kind.shape.size()));
    auto& to = tables.classes;
    fill(to.name, model.classes, [](const TensorClass& c) { return c.name; });
    fill(to.axes, model.classes, [](const TensorClass& c) { return c.shape.size(); });
    fill(to.tp_axis, model.classes, [](const TensorClass& c) { return c.tp_axis; });
    fill(to.pad, model.classes, [](const TensorClass& c) { return c.pad; });
    fill(to.experts, model.classes, [](const TensorClass& c) { return c.experts; });
    fill(to.first, model.classes, [](const TensorClass& c) { return c.first; });
    fill(to.last, model.classes, [](const TensorClass& c) { return c.last; });
    to.layers.begin.push_back(0);
    for (const TensorClass& kind : model.classes) {
        for (std::uint64_t k = 0; k < tables.widest; ++k)
            to.shape.push_back(static_cast<int>(k) < kind.shape.size() ? kind.shape[static_cast<int>(k)] : 0);
        to.layers.values.insert(to.layers.values.end(), kind.layers.begin(), kind.layers.end());
        to.layers.begin.push_back(to.layers.values.size());
        if (kind.of_virtual_nodes)
            tables.virtual_nodes.push_back(static_cast<std::uint32_t>(to.layers.begin.size()) - 2);
    }
    return tables;
}

ModelState from_tables(const ModelTables& tables, std::string name, const HostTables& hosts) {
    ModelState model{.name = std::move(name), .layers = static_cast<int>(tables.layers), .classes = {}, .roles = {}};
    const auto& from = tables.classes;
    for (std::size_t c = 0; c < from.name.size(); ++c) {
        TensorClass kind{.name = from.name[c],
                         .tp_axis = from.tp_axis[c],
                         .pad = static_cast<Index>(from.pad[c]),
                         .experts = static_cast<Index>(from.experts[c]),
                         .first = from.first[c] != 0,
                         .last = from.last[c] != 0};
        for (std::uint32_t k = 0; k < from.axes[c]; ++k) kind.shape.push_back(from.shape[c * tables.widest + k]);
        for (std::uint64_t l = from.layers.begin[c]; l < from.layers.begin[c + 1]; ++l)
            kind.layers.push_back(from.layers.values[l]);
        model.classes.push_back(std::move(kind));
    }
    for (std::uint32_t number : tables.virtual_nodes) model.classes[number].of_virtual_nodes = true;
    const std::vector<Role> roles = roles_by_name(hosts.roles.name);
    for (std::size_t r = 0; r < roles.size(); ++r)
        model.roles.push_back({roles[r], dtype_by_name(hosts.roles.dtype[r]).value()});
    return model;
}

HostTables to_tables(const Change& plan, const ModelState* model) {
    HostTables tables;
    for (const auto& [word, state] : states) {
        if (state == plan.state) tables.state = word;
    }
    put_hosts(plan, tables);
    fill(tables.old_ranks.host, plan.old_ranks, [](const RankLocation& s) { return s.host; });
    fill(tables.old_ranks.device, plan.old_ranks, [](const RankLocation& s) { return s.device; });
    put_parcels(plan.parcels, tables);
    put_placement(plan.placement, tables);
    put_relocation(plan.relocation, tables);
    put_sources(plan.sources, tables);
    for (std::size_t r = 0; r < tables.roles.name.size(); ++r)
        tables.roles.dtype.emplace_back(model && r < model->roles.size() ? name(model->roles[r].dtype) : "");
    return tables;
}

Change from_tables(const HostTables& tables) {
    Change plan;
    for (const auto& [word, state] : states) {
        if (word == tables.state) plan.state = state;
    }
    get_hosts(tables, plan);
    for (std::size_t r = 0; r < tables.old_ranks.host.size(); ++r)
        plan.old_ranks.push_back({tables.old_ranks.host[r], tables.old_ranks.device[r]});
    get_parcels(tables, plan.parcels);
    get_placement(tables, plan.placement);
    get_relocation(tables, plan.relocation);
    get_sources(tables, plan.sources);
    return plan;
}

HeldTables held_tables(const FileChange& plan) {
    HeldTables tables{plan.tensors, names_of(plan.roles), plan.held_before, plan.held_after, {}};
    fill(tables.cells.parcel, plan.cells, [](const PieceCell& c) { return c.parcel; });
    fill(tables.cells.tensor, plan.cells, [](const PieceCell& c) { return c.tensor; });
    fill(tables.cells.begin, plan.cells, [](const PieceCell& c) { return c.begin; });
    for (const PieceCell& cell : plan.cells) tables.cells.box.push_back(cell.box);
    return tables;
}

PlanTables to_tables(const PlanFile& content) {
    PlanTables tables{.from = content.from, .to = content.to, .model = {}, .held = {}, .hosts = {}};
    const ModelState* model = content.model ? &*content.model : nullptr;
    if (model) tables.model = to_tables(*model);
    if (content.hosts) tables.hosts = to_tables(*content.hosts, model);
    if (content.checkpoint && content.hosts) tables.held = held_tables(*content.checkpoint);
    return tables;
}

}  // namespace tpx::formats
