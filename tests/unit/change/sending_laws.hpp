// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/unit/change/relocation_case.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tpx::testing {

/// The least that hosts send of a byte of a parcel, over all ways to send it from host to host: into each switch group
/// once, or not at all if the group holds it; with as few reads just for sending as possible. A way is [host][0: bytes
/// it reads to send them, 1: other bytes].
class Ways {
public:
    Ways(const RelocationCase& it, const Parcel& parcel) : it_{it}, holders_{it.holders(parcel)} {
        for (std::uint32_t host : it.missing(parcel)) missing_.push_back(host);
        for (std::uint32_t host : holders_) {
            if (it.is_reader(parcel, host)) readers_.insert(host);
        }
        sent_.resize(it.host_count());
        if (!holders_.empty()) choose(0);
    }

    // The least bytes sent through the NICs of hosts in `nics` or read from the disks in `disks`.
    std::uint64_t least(unsigned nics, unsigned disks) const {
        std::uint64_t least = ~std::uint64_t{0};
        for (const auto& sent : all_) {
            std::uint64_t sum = 0;
            for (std::size_t h = 0; h < sent.size(); ++h)
                sum += (nics >> h & 1u) * (sent[h][0] + sent[h][1]) + (disks >> h & 1u) * sent[h][0];
            least = std::min(least, sum);
        }
        return all_.empty() ? 0 : least;
    }

private:
    void choose(std::size_t i) {
        if (i == missing_.size()) return void(legal() && all_.insert(sent_).second);
        for (std::uint32_t from = 0; from < it_.host_count(); ++from) {
            const bool holds = holders_.contains(from);
            if (from == missing_[i] || !(holds || std::ranges::find(missing_, from) != missing_.end())) continue;
            from_[missing_[i]] = from;
            const std::size_t kind = holds && readers_.contains(from) ? 0 : 1;
            ++sent_[from][kind];
            choose(i + 1);
            --sent_[from][kind];
        }
    }

    /// Whether a byte is read just for sending, and then sent, at most once in a group; and once in all to other
    /// groups, if no host in a group that has it needs it.
    bool reads_once() const {
        std::map<std::string, int> inside;
        int across = 0;
        bool others = false;  // hosts that need it in a group that has it
        for (std::uint32_t host : holders_) {
            for (std::uint32_t needer : missing_) others |= it_.group(host) == it_.group(needer);
        }
        for (const auto& [to, from] : from_) {
            if (!readers_.contains(from)) continue;
            const bool is_inside = it_.group(to) == it_.group(from);
            if (is_inside && ++inside[it_.group(to)] > 1) return false;
            if (!is_inside && (others || ++across > 1)) return false;
        }
        return true;
    }

    bool legal() const {
        if (!reads_once()) return false;
        std::map<std::string, int> entries;
        for (std::uint32_t host : holders_) entries[it_.group(host)] = 1;
        for (const auto& [to, from] : from_) {
            if (it_.group(to) != it_.group(from) && ++entries[it_.group(to)] > 1) return false;
            std::uint32_t host = to;
            for (std::size_t steps = 0; !holders_.contains(host); host = from_.at(host)) {
                if (steps++ > from_.size()) return false;
            }
        }
        return true;
    }

    const RelocationCase& it_;
    Hosts holders_;
    Hosts readers_;
    std::vector<std::uint32_t> missing_;
    std::map<std::uint32_t, std::uint32_t> from_;
    std::vector<std::array<std::uint64_t, 2>> sent_;
    std::set<std::vector<std::array<std::uint64_t, 2>>> all_;
};

/// Checks that no way to send finishes sooner: the longest of the times that each set of NICs and disks needs was
/// reached.
inline void check_sending(const RelocationCase& it) {
    std::vector<Ways> ways;
    for (const Parcel& parcel : it.instance.parcels.parcels) ways.emplace_back(it, parcel);
    const bool stores = it.state == StateMedium::stores;
    std::vector<std::uint64_t> own(it.host_count());
    for (const Parcel& parcel : it.instance.parcels.parcels) {
        for (std::uint32_t host : it.needers(parcel))
            own[host] += it.missing(parcel).contains(host) && !it.holders(parcel).empty() ? 0 : parcel.bytes;
    }
    const auto bytes_of = [&](unsigned nics, unsigned disks) {
        std::uint64_t bytes = 0;
        for (std::size_t p = 0; p < ways.size(); ++p)
            bytes += it.instance.parcels.parcels[p].bytes * ways[p].least(nics, disks);
        for (std::size_t h = 0; h < own.size(); ++h) bytes += (disks >> h & 1u) * own[h];
        return bytes;
    };
    const auto rate_of = [&](unsigned nics, unsigned disks) {
        double rate = 0;
        for (std::size_t h = 0; h < own.size(); ++h)
            rate += (nics >> h & 1u) * it.nic(h) + (disks >> h & 1u) * it.disk(h);
        return rate;
    };
    double longest = 0;
    const unsigned sets = 1u << it.host_count();
    for (unsigned nics = 0; nics < sets; ++nics) {
        for (unsigned disks = 0; disks < (stores ? sets : 1); ++disks) {
            if ((nics & disks) == 0 && (nics | disks) != 0)
                longest = std::max(longest, static_cast<double>(bytes_of(nics, disks)) / rate_of(nics, disks));
        }
    }
    const SendingBound& bound = it.relocation.sending;
    REQUIRE(bound.seconds == doctest::Approx(longest).epsilon(1e-12));
    for (std::size_t h = 0; h < own.size(); ++h) {
        REQUIRE(it.relocation.hosts[h].nic_out <= static_cast<std::uint64_t>(longest * it.nic(h)) + 1);
        if (stores) REQUIRE(it.relocation.hosts[h].disk_read <= static_cast<std::uint64_t>(longest * it.disk(h)) + 1);
    }
    unsigned nics = 0;
    unsigned disks = 0;
    for (std::uint32_t host : bound.hosts) nics |= 1u << host;
    for (std::uint32_t host : bound.disks) disks |= 1u << host;
    REQUIRE(bytes_of(nics, disks) == bound.bytes);
    if (longest > 0) REQUIRE(bound.seconds == doctest::Approx(static_cast<double>(bound.bytes) / rate_of(nics, disks)));
}

}  // namespace tpx::testing
