// SPDX-License-Identifier: Apache-2.0
#include "lib/check/check_shape.hpp"

#include "lib/check/layout_text.hpp"
#include "lib/core/dtype.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

namespace tpx {
namespace {

constexpr std::uint64_t most_devices = 1 << 24;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 62;

/// Whether two such prices can be added without overflow.
bool is_price(std::int64_t price) {
    return price <= static_cast<std::int64_t>(most_bytes) && price >= -static_cast<std::int64_t>(most_bytes);
}

/// Throws unless all of `columns` have as many rows as `rows`.
template <class... Columns>
void check_rows(std::string_view table, std::size_t rows, const Columns&... columns) {
    for (std::size_t size : {columns.size()...}) {
        if (size != rows) throw failure("{}: columns of {} and {} rows", table, rows, size);
    }
}

template <class T>
void check_below(std::string_view column, const std::vector<T>& values, std::uint64_t end, T exception = 0) {
    for (T value : values) {
        if (static_cast<std::uint64_t>(value) >= end && (exception == 0 || value != exception))
            throw failure("{}: {} of {}", column, value, end);
    }
}

template <class... Columns>
void check_flags(std::string_view table, const Columns&... columns) {
    (check_below(table, columns, 2), ...);
}

void check_names(std::string_view column, std::span<const std::string> names) {
    std::set<std::string_view> seen;
    for (const std::string& name : names) {
        if (name.empty() || !seen.insert(name).second)
            throw failure("{}: '{}' is empty or appears twice", column, name);
    }
}

void check_begins(std::string_view name, const ListColumn& lists) {
    const auto& begin = lists.begin;
    if (begin.empty() || begin.front() != 0 || begin.back() != lists.values.size() || !std::ranges::is_sorted(begin))
        throw failure("{}: its lists do not follow each other", name);
}

void check_sets(std::string_view name, const ListColumn& sets, std::size_t ranks) {
    check_begins(name, sets);
    check_below(name, sets.values, ranks);
    for (std::size_t k = 0; k + 1 < sets.begin.size(); ++k) {
        for (std::uint64_t i = sets.begin[k] + 1; i < sets.begin[k + 1]; ++i) {
            if (sets.values[i - 1] >= sets.values[i]) throw failure("{}: the ranks of set {} do not ascend", name, k);
        }
    }
}

void check_rates(std::string_view column, std::span<const double> rates) {
    for (double rate : rates) {
        if (!std::isfinite(rate) || rate < 0) throw failure("{}: {} is not a rate", column, rate);
    }
}

void check_hosts(const HostTables& t) {
    const auto& h = t.hosts;
    const std::size_t count = h.name.size();
    check_rows("hosts", count, h.gpus, h.nic, h.disk_read, h.disk_write, h.memory, h.switch_group, h.rails, h.lost,
               h.spare, h.price);
    check_rows("loads", count, t.loads.disk_read, t.loads.disk_write, t.loads.nic_in, t.loads.nic_out, t.loads.memory,
               t.loads.staging);
    check_names("hosts/name", h.name);
    check_flags("hosts", h.lost, h.spare);
    check_rates("hosts/nic", h.nic);
    check_rates("hosts/disk_read", h.disk_read);
    check_rates("hosts/disk_write", h.disk_write);
    check_rates("hosts/memory", h.memory);
    std::uint64_t devices = 0;
    for (std::uint32_t gpus : h.gpus) devices += gpus;
    if (devices > most_devices) throw failure("hosts/gpus: {} devices in all", devices);
    check_below("lost/device", t.lost_devices, devices);
    if (std::ranges::adjacent_find(t.lost_devices, std::ranges::greater_equal{}) != t.lost_devices.end())
        throw failure("lost/device: its devices do not ascend");
    if (t.group == 0 || t.group > most_devices) throw failure("group: {} ranks", t.group);
    check_below("hosts/rails", h.rails, most_devices);
    if (std::ranges::count(h.rails, 0u) > 0) throw failure("hosts/rails: a host without NICs");
    for (std::int64_t price : h.price) {
        if (!is_price(price)) throw failure("hosts/price: {} is too large", price);
    }
}

void check_ranks(const HostTables& t) {
    check_rows("ranks", t.old_ranks.host.size(), t.old_ranks.device);
    const auto hosts = static_cast<std::int32_t>(t.hosts.name.size());
    for (std::int32_t host : t.old_ranks.host) {
        if (host < -1 || host >= hosts) throw failure("ranks/old_host: {} of {}", host, hosts);
    }
    check_sets("holders", t.holders, t.old_ranks.host.size());
    check_sets("needers", t.needers, t.new_devices.size());
    for (std::size_t k = 0; k + 1 < t.needers.begin.size(); ++k) {
        if (t.needers.begin[k] == t.needers.begin[k + 1]) throw failure("needers: set {} is empty", k);
    }
}

void check_parcels(const HostTables& t) {
    const auto& r = t.roles;
    check_rows("roles", r.name.size(), r.dtype, r.needed, r.kept, r.local, r.same_host, r.other_host, r.storage);
    check_names("roles/name", r.name);
    const auto& p = t.parcels;
    check_rows("parcels", p.bytes.size(), p.holders, p.needers, p.role, p.tensor, p.recut, p.element);
    check_below("parcels/holders", p.holders, t.holders.begin.size() - 1);
    check_below("parcels/needers", p.needers, t.needers.begin.size() - 1);
    check_below("parcels/role", p.role, r.name.size());
    check_below("parcels/tensor", p.tensor, t.tensors.size());
    check_flags("parcels/recut", p.recut);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < p.bytes.size(); ++i) {
        // All needers need all bytes of the parcel, and sums over needers must not overflow.
        const std::uint64_t needers = t.needers.begin[p.needers[i] + 1] - t.needers.begin[p.needers[i]];
        if (p.bytes[i] == 0 || p.bytes[i] > (most_bytes - sum) / needers)
            throw failure("parcels/bytes: {} bytes for {} ranks", p.bytes[i], needers);
        sum += p.bytes[i] * needers;
        if (p.element[i] == 0 || p.bytes[i] % p.element[i] != 0)
            throw failure("parcels/element: {} bytes in elements of {}", p.bytes[i], p.element[i]);
    }
}

void check_blocks(const HostTables& t) {
    const auto& b = t.blocks;
    check_rows("blocks", b.begin.size(), b.end, b.host, b.price);
    check_below("blocks/host", b.host, t.hosts.name.size());
    std::uint32_t next = 0;
    for (std::size_t k = 0; k < b.begin.size(); ++k) {
        if (b.begin[k] != next || b.end[k] <= next) throw failure("blocks: block {} does not follow the one before", k);
        next = b.end[k];
        if (!is_price(b.price[k])) throw failure("blocks/price: {} is too large", b.price[k]);
    }
    if (next != t.new_devices.size()) throw failure("blocks: they hold {} of {} ranks", next, t.new_devices.size());
}

void check_transfers(const HostTables& t) {
    const auto& f = t.transfers;
    check_rows("transfers", f.parcel.size(), f.from, f.to, f.begin, f.end, f.round, f.forwards);
    const std::size_t ranks = f.to_rank.empty() && f.from_rank.empty() ? 0 : f.parcel.size();
    check_rows("transfers", ranks, f.from_rank, f.to_rank);
    check_flags("transfers/forwards", f.forwards);
    check_below("transfers/parcel", f.parcel, t.parcels.bytes.size());
    check_below("transfers/from", f.from, t.hosts.name.size(), storage_host);
    check_below("transfers/to", f.to, t.hosts.name.size());
    check_below("transfers/round", f.round, std::uint64_t{1} << 31);
    for (std::size_t i = 0; i < f.parcel.size(); ++i) {
        if (f.begin[i] >= f.end[i] || f.end[i] > t.parcels.bytes[f.parcel[i]])
            throw failure("transfers: transfer {} has bytes {} to {} of {}", i, f.begin[i], f.end[i],
                          t.parcels.bytes[f.parcel[i]]);
    }
    check_below("sending/hosts", t.sending_hosts, t.hosts.name.size());
    check_below("sending/disks", t.sending_disks, t.hosts.name.size());
    for (const auto* list : {&t.sending_hosts, &t.sending_disks}) {
        if (std::ranges::adjacent_find(*list, std::ranges::greater_equal{}) != list->end())
            throw failure("sending: its hosts do not ascend");
    }
    if (!std::isfinite(t.sending_seconds) || t.sending_seconds < 0)
        throw failure("sending_seconds: {} is not a time", t.sending_seconds);
}

void check_sources(const HostTables& t) {
    const auto& s = t.sources;
    check_rows("sources", s.host.size(), s.iteration);
    check_below("sources/host", s.host, t.hosts.name.size(), storage_host);
    if (std::ranges::adjacent_find(s.host, std::ranges::greater_equal{}) != s.host.end())
        throw failure("sources/host: its hosts do not ascend");
}

void check_held(const HeldTables& held, std::size_t old_ranks, std::size_t new_ranks, std::size_t parcels) {
    if (held.roles.size() != held.tensors.size())
        throw failure("tensors: {} roles for {} tensors", held.roles.size(), held.tensors.size());
    for (const auto& [pieces, ranks, name] :
         {std::tuple{&held.before, old_ranks, "held_before"}, std::tuple{&held.after, new_ranks, "held_after"}}) {
        for (const Piece& piece : *pieces) {
            if (piece.rank < 0 || static_cast<std::size_t>(piece.rank) >= ranks)
                throw failure("{}: rank {} of {}", name, piece.rank, ranks);
        }
    }
    const auto& cells = held.cells;
    check_rows("cells", cells.box.size(), cells.parcel, cells.tensor, cells.begin);
    check_below("cells/parcel", cells.parcel, parcels);
    check_below("cells/tensor", cells.tensor, held.tensors.size());
}

}  // namespace

void check_shape(const HostTables& t) {
    if (t.state != "memory" && t.state != "stores" && t.state != "shared") throw failure("state: '{}'", t.state);
    if (t.pinned > 4) throw failure("pinned: {}", t.pinned);
    if (t.rounds > t.transfers.parcel.size())
        throw failure("rounds: {} of {} transfers", t.rounds, t.transfers.parcel.size());
    check_hosts(t);
    check_ranks(t);
    check_parcels(t);
    check_blocks(t);
    check_transfers(t);
    check_sources(t);
}

void check_shape(const ModelTables& t) {
    const auto& c = t.classes;
    check_rows("classes", c.name.size(), c.axes, c.tp_axis, c.pad, c.experts, c.first, c.last);
    check_rows("classes/layers_begin", c.name.size() + 1, c.layers.begin);
    check_begins("classes/layers", c.layers);
    if (t.widest == 0 || t.widest > max_rank || c.shape.size() != c.name.size() * t.widest)
        throw failure("classes/shape: {} numbers for {} classes", c.shape.size(), c.name.size());
    check_names("classes/name", c.name);
    check_flags("classes", c.first, c.last);
    check_below("classes/axes", c.axes, t.widest + 1);
    check_below("virtual_nodes/class", t.virtual_nodes, c.name.size());
    check_below("classes/pad", c.pad, std::uint64_t{1} << 31);
    check_below("classes/experts", c.experts, std::uint64_t{1} << 31);
    check_below("classes/layers", c.layers.values, std::uint64_t{1} << 31);
    if (t.layers >= std::uint64_t{1} << 31) throw failure("layers: {}", t.layers);
    for (std::size_t k = 0; k < c.name.size(); ++k) {
        if (c.tp_axis[k] < -1 || c.tp_axis[k] >= static_cast<std::int32_t>(c.axes[k]))
            throw failure("classes/tp_axis: {} of {}", c.tp_axis[k], c.axes[k]);
        for (std::uint64_t axis = 0; axis < t.widest; ++axis) {
            const std::int64_t size = c.shape[k * t.widest + axis];
            if (axis < c.axes[k] ? size <= 0 || size > (std::int64_t{1} << 40) : size != 0)
                throw failure("class '{}': a size of {}", c.name[k], size);
        }
    }
}

void check_shape(const PlanTables& tables) {
    if (tables.model) check_shape(*tables.model);
    if (!tables.hosts) return;
    check_shape(*tables.hosts);
    for (const std::string& dtype : tables.hosts->roles.dtype) {
        if (tables.model ? !dtype_by_name(dtype) : !dtype.empty()) throw failure("roles/dtype: '{}'", dtype);
    }
    if (tables.held)
        check_held(*tables.held, tables.hosts->old_ranks.host.size(), tables.hosts->new_devices.size(),
                   tables.hosts->parcels.bytes.size());
}

}  // namespace tpx
