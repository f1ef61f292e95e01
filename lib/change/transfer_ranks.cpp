// SPDX-License-Identifier: Apache-2.0
#include "lib/change/transfer_ranks.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tpx {
namespace {

using HostRank = std::pair<std::uint32_t, std::int32_t>;

// Ranks on one side of a change, and the bytes that each has sent or received.
class RankTraffic {
public:
    RankTraffic(const RankSets& sets, std::span<const std::int32_t> hosts)
        : sets_{sets}, hosts_{hosts}, by_host_(sets.size()), bytes_(hosts.size()) {}

    // The rank of `set` on `host` with the fewest bytes. There must be a rank of `set` on `host`.
    std::int32_t least_busy(std::uint32_t set, std::uint32_t host) {
        if (sets_[set].size() == 1) return sets_[set].front();
        const auto ranks = std::ranges::equal_range(by_host(set), host, {}, &HostRank::first);
        return std::ranges::min_element(ranks, {}, [&](const HostRank& it) { return bytes_[it.second]; })->second;
    }
    void add(std::int32_t rank, std::uint64_t bytes) { bytes_[rank] += bytes; }

private:
    const std::vector<HostRank>& by_host(std::uint32_t set) {
        std::vector<HostRank>& sorted = by_host_[set];
        if (sorted.empty()) {
            for (std::int32_t rank : sets_[set]) {
                if (hosts_[rank] >= 0) sorted.emplace_back(hosts_[rank], rank);
            }
            std::ranges::sort(sorted);
        }
        return sorted;
    }

    const RankSets& sets_;
    std::span<const std::int32_t> hosts_;
    std::vector<std::vector<HostRank>> by_host_;  // of each set
    std::vector<std::uint64_t> bytes_;            // of each rank
};

// The rank that receives a parcel on each host. Most parcels go to one host; a map of all would take most of the time.
class Receivers {
public:
    explicit Receivers(std::size_t parcels) : first_(parcels, HostRank{0, -1}) {}

    // -1 until it is set.
    std::int32_t& of(std::uint32_t parcel, std::uint32_t host) {
        HostRank& first = first_[parcel];
        if (first.second < 0) first.first = host;
        if (first.first == host) return first.second;
        return others_.try_emplace(std::uint64_t{parcel} << 32 | host, -1).first->second;
    }

private:
    std::vector<HostRank> first_;
    std::unordered_map<std::uint64_t, std::int32_t> others_;  // by parcel and host
};

}  // namespace

void set_ranks(std::span<Transfer> transfers, const Parcels& parcels, std::span<const std::int32_t> old_hosts,
               std::span<const std::int32_t> new_hosts) {
    RankTraffic senders{parcels.holders, old_hosts};
    RankTraffic receivers{parcels.needers, new_hosts};
    Receivers receiver{parcels.parcels.size()};
    for (Transfer& transfer : transfers) {
        const Parcel& parcel = parcels.parcels[transfer.parcel];
        std::int32_t& to_rank = receiver.of(transfer.parcel, transfer.to);
        if (to_rank < 0) to_rank = receivers.least_busy(parcel.needers, transfer.to);
        transfer.to_rank = to_rank;
        receivers.add(to_rank, transfer.end - transfer.begin);
        if (transfer.from == from_storage) continue;
        if (transfer.forwards) {
            transfer.from_rank = receiver.of(transfer.parcel, transfer.from);
            continue;
        }
        transfer.from_rank = senders.least_busy(parcel.holders, transfer.from);
        senders.add(transfer.from_rank, transfer.end - transfer.begin);
    }
}

}  // namespace tpx
