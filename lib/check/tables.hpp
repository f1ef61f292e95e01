// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tpx {

/// Lists of different lengths, one after another: list k is values[begin[k]] up to values[begin[k + 1]].
struct ListColumn {
    std::vector<std::uint64_t> begin;
    std::vector<std::int32_t> values;
};

/// The tables of a plan file as stored, a vector for each column; see tpx-plan(5). They may have any content: the
/// checker must check all lengths and indices. Flags are 0 or 1.
struct ClassTables {
    std::vector<std::string> name;
    std::vector<std::uint32_t> axes;
    std::vector<std::int64_t> shape;  ///< ModelTables::widest numbers each
    std::vector<std::int32_t> tp_axis;
    std::vector<std::uint64_t> pad, experts;
    std::vector<std::uint32_t> first, last;
    ListColumn layers;
};

struct ModelTables {
    std::uint64_t layers = 0;
    std::uint64_t widest = 1;
    ClassTables classes;
    std::vector<std::uint32_t> virtual_nodes;  ///< classes of virtual-node state; empty: the file has none
};

struct HostTables {
    std::string state;  ///< "memory", "stores" or "shared"
    std::uint64_t pinned = 0;
    std::uint64_t group = 1;
    std::uint64_t group_bound = 0;           ///< only where TP groups were placed
    std::vector<std::int64_t> group_prices;  ///< likewise
    std::uint64_t crossing = 0;
    std::uint64_t bound = 0;
    std::uint64_t rounds = 0;
    std::uint64_t window = 0;
    std::uint64_t sending_bytes = 0;
    double sending_seconds = 0;
    struct {
        std::uint64_t needed = 0, kept = 0, local = 0, same_host = 0, other_host = 0, storage = 0;
    } total;
    struct {
        std::vector<std::string> name;
        std::vector<std::uint32_t> gpus;
        std::vector<double> nic, disk_read, disk_write, memory;  ///< 0: not given
        std::vector<std::string> switch_group;
        std::vector<std::uint32_t> rails, lost, spare;
        std::vector<std::int64_t> price;
    } hosts;
    struct {
        std::vector<std::uint64_t> disk_read, disk_write, nic_in, nic_out, memory, staging;
    } loads;  ///< by host
    std::vector<std::uint32_t> lost_devices;
    struct {
        std::vector<std::int32_t> host, device;
    } old_ranks;
    std::vector<std::int32_t> new_devices;
    ListColumn holders, needers;
    struct {
        std::vector<std::string> name, dtype;
        std::vector<std::uint64_t> needed, kept, local, same_host, other_host, storage;
    } roles;
    std::vector<std::string> tensors;  ///< tensors that parcels name
    struct {
        std::vector<std::uint32_t> holders, needers, role, tensor, recut;
        std::vector<std::uint64_t> bytes;
        std::vector<std::uint32_t> element;
    } parcels;
    struct {
        std::vector<std::uint32_t> begin, end, host;
        std::vector<std::int64_t> price;
    } blocks;
    struct {
        std::vector<std::uint32_t> parcel, from, to, round, forwards;
        std::vector<std::uint64_t> begin, end;
        std::vector<std::int32_t> from_rank, to_rank;  ///< empty: the file does not contain them
    } transfers;
    std::vector<std::uint32_t> sending_hosts, sending_disks;
    struct {
        std::vector<std::uint32_t> host;  ///< or storage_host
        std::vector<std::uint64_t> iteration;
    } sources;  ///< sources of known iteration; empty: the file has none
};

/// What ranks hold of a checkpoint's tensors before and after, including replicas; of pieces, only tensor, rank and box
/// are used.
struct HeldTables {
    std::vector<Tensor> tensors;
    std::vector<std::string> roles;  ///< of each tensor
    std::vector<Piece> before, after;
    struct {
        std::vector<std::uint32_t> parcel, tensor;
        std::vector<std::uint64_t> begin;
        std::vector<Box> box;
    } cells;  ///< the elements of parcels; empty: the file has none
};

struct PlanTables {
    std::string from, to;  ///< layouts, as text
    std::optional<ModelTables> model;
    std::optional<HeldTables> held;
    std::optional<HostTables> hosts;
};

/// The host number that stands for shared storage, for example as the sender of a transfer.
inline constexpr std::uint32_t storage_host = 0xffffffff;

}  // namespace tpx
