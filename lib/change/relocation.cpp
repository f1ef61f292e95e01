// SPDX-License-Identifier: Apache-2.0
#include "lib/change/relocation.hpp"

#include "lib/change/schedule.hpp"
#include "lib/change/state_locations.hpp"
#include "lib/change/transfer_ranks.hpp"
#include "lib/change/transfers.hpp"
#include "lib/core/error.hpp"
#include "lib/core/units.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace tpx {
namespace {

constexpr double infinite_rate = 1e24;  // bytes per second

// "; lost: n1, n2:3 and 5 more", or "" if nothing is lost.
std::string lost_hosts(std::span<const Host> hosts) {
    static constexpr std::size_t most = 8;
    std::vector<std::string> names;
    for (const Host& host : hosts) {
        if (host.lost) names.push_back(host.name);
        for (int device : host.lost_devices) names.push_back(fmt::format("{}:{}", host.name, device));
    }
    if (names.empty()) return "";
    const std::size_t more = names.size() > most ? names.size() - most : 0;
    names.resize(names.size() - more);
    return fmt::format("; lost: {}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

class Relocating {
public:
    Relocating(const Parcels& parcels, std::span<const Host> hosts, std::span<const RankLocation> old_ranks,
               const Placement& placement, StateMedium state, std::uint64_t window)
        : parcels_{parcels},
          hosts_{hosts},
          placement_{placement},
          state_{state},
          window_{window},
          where_{parcels, hosts, old_ranks, placement} {
        result_.roles.resize(parcels.roles.size());
        result_.hosts.resize(hosts.size());
        copied_.resize(placement.devices.size());
    }

    void require_holders() const;

    Relocation run(bool in_rounds) {
        for (const Parcel& parcel : parcels_.parcels) {
            count_ranks(parcel);
            count_hosts(parcel);
        }
        for (std::size_t rank = 0; rank < copied_.size(); ++rank) {
            std::uint64_t& most = result_.hosts[where_.new_hosts[rank]].device_copy;
            most = std::max(most, copied_[rank]);
        }
        result_.unavoidable = result_.hosts;
        Transfers transfers = choose_transfers(parcels_, hosts_, where_, state_, send_rates(false));
        result_.sending = std::move(transfers.sending);
        result_.sending_by_known_rates = sending_by_known_rates(in_rounds);
        result_.window = window_;
        in_rounds ? add_rounds(std::move(transfers)) : count(transfers);
        for (BytesBySource& role : result_.roles) {
            role.same_host = role.needed - role.kept - role.local - role.other_host - role.storage;
            result_.total += role;
        }
        return std::move(result_);
    }

private:
    void count_ranks(const Parcel& parcel);
    void count_hosts(const Parcel& parcel);
    void count(const Transfer& transfer);
    void count(const Transfers& transfers);
    void add_rounds(Transfers transfers);
    std::vector<SendRate> send_rates(bool only_known) const;
    SendingBound sending_by_known_rates(bool if_mixed) const;
    double seconds_with_barriers() const;

    const Parcels& parcels_;
    std::span<const Host> hosts_;
    const Placement& placement_;
    StateMedium state_;
    std::uint64_t window_;
    StateLocations where_;
    std::vector<std::uint64_t> copied_;  // inside the device of each new rank
    Relocation result_;
};

void Relocating::require_holders() const {
    const Parcel* first = nullptr;
    std::uint64_t bytes = 0;
    for (const Parcel& parcel : parcels_.parcels) {
        if (!where_.holding[parcel.holders].empty()) continue;
        if (first == nullptr) first = &parcel;
        bytes += parcel.bytes;
    }
    if (first == nullptr) return;
    throw Error{Exit::no,
                "tensor '{}': no host holds {} of its {} ({} in all{})",
                parcels_.tensors[first->tensor],
                format_size(first->bytes),
                parcels_.roles[first->role],
                format_size(bytes),
                lost_hosts(hosts_)};
}

// Counts what ranks need, what they already have, and the copies inside hosts.
void Relocating::count_ranks(const Parcel& parcel) {
    BytesBySource& role = result_.roles[parcel.role];
    const auto on = where_.on[parcel.holders];
    for (std::int32_t rank : parcels_.needers[parcel.needers]) {
        Load& load = result_.hosts[where_.new_hosts[rank]];
        role.needed += parcel.bytes;
        const bool there = std::ranges::binary_search(on, placement_.devices[rank]);
        if (there) (parcel.recut ? role.local : role.kept) += parcel.bytes;
        if (!there || parcel.recut) load.memory += parcel.bytes;
        if (!there) load.device_link += parcel.bytes;
        if (there && parcel.recut) copied_[static_cast<std::size_t>(rank)] += parcel.bytes;
    }
}

// Counts what must come into hosts, and what hosts read and write for themselves.
void Relocating::count_hosts(const Parcel& parcel) {
    const auto holding = where_.holding[parcel.holders];
    for (std::int32_t host : where_.needing[parcel.needers]) {
        const bool held = std::ranges::binary_search(holding, host);
        Load& load = result_.hosts[host];
        if (!held) {
            result_.bound += parcel.bytes;
            load.memory -= parcel.bytes;  // one rank of the host receives them without a copy inside the host
            load.device_link -= parcel.bytes;
        }
        if (!held && holding.empty()) load.disk_read += parcel.bytes;
        if (state_ != StateMedium::stores) continue;
        if (held) load.disk_read += parcel.bytes;
        load.disk_write += parcel.bytes;
    }
}

// The rates of the hosts. Unknown rates are assumed or, with `only_known`, practically infinite.
std::vector<SendRate> Relocating::send_rates(bool only_known) const {
    const double nic = only_known ? infinite_rate : default_rates.nic;
    const double disk = only_known ? 0 : default_rates.disk_read;
    std::vector<SendRate> rates;
    for (std::size_t h = 0; h < hosts_.size(); ++h) {
        SendRate rate{hosts_[h].nic.value_or(nic), 0, result_.unavoidable[h].disk_read};
        if (state_ == StateMedium::stores) rate.disk = hosts_[h].disk_read.value_or(disk);
        rates.push_back(rate);
    }
    return rates;
}

// The bound by known rates alone. If only some rates are known, this chooses senders again, which takes time; without
// `if_mixed`, it then returns no bound.
SendingBound Relocating::sending_by_known_rates(bool if_mixed) const {
    const bool from_disk = state_ == StateMedium::stores;
    const auto is_known = [&](const Host& host) { return host.nic && (host.disk_read || !from_disk); };
    const auto is_unknown = [&](const Host& host) { return !host.nic && (!host.disk_read || !from_disk); };
    if (std::ranges::all_of(hosts_, is_known)) return result_.sending;
    if (!if_mixed || std::ranges::all_of(hosts_, is_unknown)) return {};
    SendingBound bound = choose_transfers(parcels_, hosts_, where_, state_, send_rates(true)).sending;
    const bool rests_on_known =
        std::ranges::all_of(bound.hosts, [&](std::uint32_t h) { return hosts_[h].nic.has_value(); });
    return rests_on_known ? bound : SendingBound{};
}

void Relocating::count(const Transfer& transfer) {
    const std::uint64_t bytes = transfer.end - transfer.begin;
    BytesBySource& role = result_.roles[parcels_.parcels[transfer.parcel].role];
    if (transfer.from == from_storage) {
        role.storage += bytes;
        return;
    }
    role.other_host += bytes;
    Load& from = result_.hosts[transfer.from];
    Load& to = result_.hosts[transfer.to];
    from.nic_out += bytes;
    from.memory += bytes;
    for (Load* load : {&to, &result_.unavoidable[transfer.to]}) {
        load->nic_in += bytes;
        load->memory += bytes;
    }
    const auto needing = where_.needing[parcels_.parcels[transfer.parcel].needers];
    const bool reads_anyway = std::ranges::binary_search(needing, static_cast<std::int32_t>(transfer.from));
    if (state_ == StateMedium::stores && !transfer.forwards && !reads_anyway) from.disk_read += bytes;
}

void Relocating::count(const Transfers& transfers) {
    for (const Transfer& transfer : transfers.direct) count(transfer);
    for (const Stream& stream : transfers.streams) {
        for (const Hop& hop : stream.hops) {
            for (const ParcelRange& range : stream.ranges)
                count({range.parcel, hop.from, hop.to, range.begin, range.end, 0, hop.depth > 0});
        }
    }
}

void Relocating::add_rounds(Transfers transfers) {
    Schedule scheduled = schedule(std::move(transfers), parcels_, hosts_.size(), window_);
    result_.transfers = std::move(scheduled.transfers);
    set_ranks(result_.transfers, parcels_, where_.old_hosts, where_.new_hosts);
    result_.rounds = scheduled.rounds;
    result_.staging = std::move(scheduled.staging);
    for (const Transfer& transfer : result_.transfers) count(transfer);
    result_.seconds_with_barriers = seconds_with_barriers();
}

double Relocating::seconds_with_barriers() const {
    std::vector<std::uint64_t> sent(hosts_.size());
    const auto nic = [&](std::uint32_t host) { return hosts_[host].nic.value_or(default_rates.nic); };
    double sum = 0;
    double longest = 0;
    std::uint32_t round = 0;
    std::vector<std::uint32_t> senders;  // of the round
    for (const Transfer& transfer : result_.transfers) {
        if (transfer.from == from_storage) continue;
        if (transfer.round != round) {
            sum += longest;
            longest = 0;
            round = transfer.round;
            for (std::uint32_t host : senders) sent[host] = 0;
            senders.clear();
        }
        senders.push_back(transfer.from);
        sent[transfer.from] += transfer.end - transfer.begin;
        const double rate = std::min(nic(transfer.from), nic(transfer.to));
        longest = std::max(longest, static_cast<double>(sent[transfer.from]) / rate);
    }
    return sum + longest;
}

}  // namespace

Relocation relocate(const Parcels& parcels, std::span<const Host> hosts, std::span<const RankLocation> old_ranks,
                    const Placement& placement, StateMedium state, bool storage, std::uint64_t window) {
    Relocating relocating{parcels, hosts, old_ranks, placement, state, window};
    if (!storage) relocating.require_holders();
    return relocating.run(true);
}

Relocation relocate_without_rounds(const Parcels& parcels, std::span<const Host> hosts,
                                   std::span<const RankLocation> old_ranks, const Placement& placement,
                                   StateMedium state, bool storage) {
    Relocating relocating{parcels, hosts, old_ranks, placement, state, default_window};
    if (!storage) relocating.require_holders();
    return relocating.run(false);
}

}  // namespace tpx
