// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/tables.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// What follows at once from the tables: who is where. The tables must have a proper shape.
struct Facts {
    explicit Facts(const HostTables& tables);

    std::span<const std::int32_t> holders(std::uint32_t parcel) const {
        return list(t.holders, t.parcels.holders[parcel]);
    }
    std::span<const std::int32_t> needers(std::uint32_t parcel) const {
        return list(t.needers, t.parcels.needers[parcel]);
    }
    /// The hosts that have a holder of a parcel, or a needer; ascending.
    std::span<const std::int32_t> holding(std::uint32_t parcel) const {
        return list(holding_hosts, t.parcels.holders[parcel]);
    }
    std::span<const std::int32_t> needing(std::uint32_t parcel) const {
        return list(needing_hosts, t.parcels.needers[parcel]);
    }
    /// The hosts that need a parcel and do not hold it.
    std::vector<std::int32_t> missing(std::uint32_t parcel) const;
    /// The number of the switch group of each host: its own where none is stored.
    std::vector<std::uint32_t> switch_groups() const;

    std::uint32_t parcels() const { return static_cast<std::uint32_t>(t.parcels.bytes.size()); }
    std::uint32_t hosts() const { return static_cast<std::uint32_t>(t.hosts.name.size()); }

    static std::span<const std::int32_t> list(const ListColumn& lists, std::size_t k) {
        return std::span{lists.values}.subspan(lists.begin[k], lists.begin[k + 1] - lists.begin[k]);
    }

    const HostTables& t;
    std::vector<std::int64_t> first_device;  ///< of each host, and one more
    std::vector<bool> is_lost;               ///< of devices, those of lost hosts among them
    std::vector<std::uint32_t> devices;      ///< that are not lost, of each host
    std::vector<std::int32_t> old_host;      ///< of old ranks; -1: nowhere any more
    std::vector<std::int32_t> new_host;      ///< of new ranks
    ListColumn holding_hosts;                ///< of each set of holders
    ListColumn needing_hosts;                ///< of each set of needers
};

}  // namespace tpx
