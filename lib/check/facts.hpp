// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/tables.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// What follows directly from the tables: which ranks and parcels are where. Precondition: check_shape() has passed.
struct Facts {
    explicit Facts(const HostTables& tables);

    std::span<const std::int32_t> holders(std::uint32_t parcel) const {
        return list(t.holders, t.parcels.holders[parcel]);
    }
    std::span<const std::int32_t> needers(std::uint32_t parcel) const {
        return list(t.needers, t.parcels.needers[parcel]);
    }
    /// The hosts of the holders, or of the needers, of a parcel; ascending.
    std::span<const std::int32_t> holding(std::uint32_t parcel) const {
        return list(holding_hosts, t.parcels.holders[parcel]);
    }
    std::span<const std::int32_t> needing(std::uint32_t parcel) const {
        return list(needing_hosts, t.parcels.needers[parcel]);
    }
    /// The hosts that need a parcel and do not hold it.
    std::vector<std::int32_t> missing(std::uint32_t parcel) const;
    /// The switch group of each host: the number of the group's first host, or its own number if no group is stored.
    std::vector<std::uint32_t> switch_groups() const;

    std::uint32_t parcels() const { return static_cast<std::uint32_t>(t.parcels.bytes.size()); }
    std::uint32_t hosts() const { return static_cast<std::uint32_t>(t.hosts.name.size()); }

    static std::span<const std::int32_t> list(const ListColumn& lists, std::size_t k) {
        return std::span{lists.values}.subspan(lists.begin[k], lists.begin[k + 1] - lists.begin[k]);
    }

    const HostTables& t;
    std::vector<std::int64_t> first_device;  ///< by host, and the number of all devices
    std::vector<bool> is_lost;               ///< by device, including devices of lost hosts
    std::vector<std::uint32_t> devices;      ///< by host: how many devices are not lost
    std::vector<std::int32_t> old_host;      ///< by old rank; -1: lost
    std::vector<std::int32_t> new_host;      ///< by new rank
    ListColumn holding_hosts;                ///< by set of holders
    ListColumn needing_hosts;                ///< by set of needers
};

}  // namespace tpx
