// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/tables.hpp"

#include <string_view>

namespace tpx::formats {

/// Calls `visit(name, column)` for the columns that describe a model, in the order of the file. Their names in the file
/// are defined only here. `Tables` is ModelTables, const or not.
template <class Tables, class Visit>
void for_each_model_column(Tables& tables, Visit&& visit) {
    auto& classes = tables.classes;
    visit("classes/name", classes.name);
    visit("classes/axes", classes.axes);
    visit("classes/tp_axis", classes.tp_axis);
    visit("classes/pad", classes.pad);
    visit("classes/experts", classes.experts);
    visit("classes/first", classes.first);
    visit("classes/last", classes.last);
    visit("classes/layers_begin", classes.layers.begin);
    visit("classes/layers", classes.layers.values);
}

/// The same for the columns of hosts, ranks and the transfers between them.
template <class Tables, class Visit>
void for_each_host_column(Tables& tables, Visit&& visit) {
    auto& hosts = tables.hosts;
    visit("hosts/name", hosts.name);
    visit("hosts/gpus", hosts.gpus);
    visit("hosts/nic", hosts.nic);
    visit("hosts/disk_read", hosts.disk_read);
    visit("hosts/disk_write", hosts.disk_write);
    visit("hosts/memory", hosts.memory);
    visit("hosts/switch_group", hosts.switch_group);
    visit("hosts/rails", hosts.rails);
    visit("hosts/lost", hosts.lost);
    visit("hosts/spare", hosts.spare);
    visit("hosts/price", hosts.price);
    visit("loads/disk_read", tables.loads.disk_read);
    visit("loads/disk_write", tables.loads.disk_write);
    visit("loads/nic_in", tables.loads.nic_in);
    visit("loads/nic_out", tables.loads.nic_out);
    visit("loads/memory", tables.loads.memory);
    visit("loads/staging", tables.loads.staging);
    visit("ranks/old_host", tables.old_ranks.host);
    visit("ranks/old_device", tables.old_ranks.device);
    visit("ranks/new_device", tables.new_devices);
    visit("holders/begin", tables.holders.begin);
    visit("holders/ranks", tables.holders.values);
    visit("needers/begin", tables.needers.begin);
    visit("needers/ranks", tables.needers.values);
    visit("roles/name", tables.roles.name);
    visit("roles/dtype", tables.roles.dtype);
    visit("roles/needed", tables.roles.needed);
    visit("roles/kept", tables.roles.kept);
    visit("roles/local", tables.roles.local);
    visit("roles/same_host", tables.roles.same_host);
    visit("roles/other_host", tables.roles.other_host);
    visit("roles/storage", tables.roles.storage);
    visit("parcels/holders", tables.parcels.holders);
    visit("parcels/needers", tables.parcels.needers);
    visit("parcels/role", tables.parcels.role);
    visit("parcels/tensor", tables.parcels.tensor);
    visit("parcels/recut", tables.parcels.recut);
    visit("parcels/bytes", tables.parcels.bytes);
    visit("parcels/element", tables.parcels.element);
    visit("parcels/names", tables.tensors);
    visit("blocks/begin", tables.blocks.begin);
    visit("blocks/end", tables.blocks.end);
    visit("blocks/host", tables.blocks.host);
    visit("blocks/price", tables.blocks.price);
    visit("transfers/parcel", tables.transfers.parcel);
    visit("transfers/from", tables.transfers.from);
    visit("transfers/to", tables.transfers.to);
    visit("transfers/begin", tables.transfers.begin);
    visit("transfers/end", tables.transfers.end);
    visit("transfers/round", tables.transfers.round);
    visit("transfers/forwards", tables.transfers.forwards);
    visit("sending/hosts", tables.sending_hosts);
    visit("sending/disks", tables.sending_disks);
}

/// The same for the columns of the ranks of transfers; files of other programs and older files may lack them.
template <class Tables, class Visit>
void for_each_rank_column(Tables& tables, Visit&& visit) {
    visit("transfers/from_rank", tables.transfers.from_rank);
    visit("transfers/to_rank", tables.transfers.to_rank);
}

/// The same for the columns of the iteration of each source; older files lack them.
template <class Tables, class Visit>
void for_each_source_column(Tables& tables, Visit&& visit) {
    visit("sources/host", tables.sources.host);
    visit("sources/iteration", tables.sources.iteration);
}

/// The same for single numbers, which are attributes of the root.
template <class Tables, class Visit>
void for_each_host_number(Tables& tables, Visit&& visit) {
    visit("pinned", tables.pinned);
    visit("needed", tables.total.needed);
    visit("kept", tables.total.kept);
    visit("local", tables.total.local);
    visit("same_host", tables.total.same_host);
    visit("other_host", tables.total.other_host);
    visit("storage", tables.total.storage);
    visit("crossing", tables.crossing);
    visit("bound", tables.bound);
    visit("rounds", tables.rounds);
    visit("window", tables.window);
    visit("sending_bytes", tables.sending_bytes);
    visit("sending_seconds", tables.sending_seconds);
}

}  // namespace tpx::formats
