// SPDX-License-Identifier: Apache-2.0
#include "lib/check/check_sending.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace tpx {
namespace {

// The rates that tpx-plan(5) assumes if none are given.
constexpr double default_nic = 25e9;
constexpr double default_disk_read = 5e9;

class Sending {
public:
    explicit Sending(const Facts& facts)
        : facts_{facts}, t_{facts.t}, nic_(facts.hosts(), false), disk_(facts.hosts(), false) {
        for (std::uint32_t host : t_.sending_hosts) nic_[host] = true;
        for (std::uint32_t host : t_.sending_disks) {
            if (t_.state != "stores" || nic_[host])
                throw failure("sending/disks: host '{}' reads no disk, or its NIC is named too", t_.hosts.name[host]);
            disk_[host] = true;
        }
        group_ = facts.switch_groups();
        transfers_.resize(facts.hosts());
        for (std::uint32_t from : t_.transfers.from) {
            if (from != storage_host) ++transfers_[from];
        }
        for (std::uint32_t element : t_.parcels.element) element_ = std::max<std::uint64_t>(element_, element);
    }

    void run() {
        for (std::uint32_t parcel = 0; parcel < facts_.parcels(); ++parcel) {
            const std::vector<std::int32_t> missing = facts_.missing(parcel);
            if (t_.state == "stores") add_own_reads(parcel);
            if (!missing.empty() && !facts_.holding(parcel).empty()) add(parcel, missing);
        }
        if (confined_ != t_.sending_bytes)
            throw failure("sending_bytes: {} are stored, {} can leave only through the hosts named", t_.sending_bytes,
                          confined_);
        double rate = 0;
        for (std::uint32_t host : t_.sending_hosts) rate += nic_rate(host);
        for (std::uint32_t host : t_.sending_disks) rate += disk_rate(host);
        const double seconds = rate > 0 ? static_cast<double>(confined_) / rate : 0;
        if (std::abs(seconds - t_.sending_seconds) > 1e-12 * seconds)
            throw failure("sending_seconds: {} are stored, {} bytes take {}", t_.sending_seconds, confined_, seconds);
        for (std::uint32_t host = 0; host < facts_.hosts(); ++host) check_load(host);
    }

private:
    using Hosts = std::vector<std::int32_t>;

    double nic_rate(std::uint32_t host) const { return t_.hosts.nic[host] > 0 ? t_.hosts.nic[host] : default_nic; }
    double disk_rate(std::uint32_t host) const {
        return t_.hosts.disk_read[host] > 0 ? t_.hosts.disk_read[host] : default_disk_read;
    }

    static Hosts joined(Hosts a, const Hosts& b) {
        a.insert(a.end(), b.begin(), b.end());
        return a;
    }

    /// Adds what a named disk reads for its own host.
    void add_own_reads(std::uint32_t parcel) {
        const auto holding = facts_.holding(parcel);
        for (std::int32_t host : facts_.needing(parcel)) {
            const bool reads = holding.empty() || std::ranges::binary_search(holding, host);
            if (reads && disk_[host]) confined_ += t_.parcels.bytes[parcel];
        }
    }

    /// Adds `copies` copies of the parcel if the bound names all hosts that may send them: `readers`, which read the
    /// parcel only to send it, and `others`.
    void demand(std::uint32_t parcel, const Hosts& readers, const Hosts& others, std::uint64_t copies) {
        const bool confined = std::ranges::all_of(readers, [&](std::int32_t h) { return nic_[h] || disk_[h]; }) &&
                              std::ranges::all_of(others, [&](std::int32_t h) { return bool{nic_[h]}; });
        if (confined) confined_ += copies * t_.parcels.bytes[parcel];
    }

    /// Hosts of a switch group: those that have a parcel anyway, those that read it only to send it, and those that
    /// lack it.
    struct Group {
        Hosts holders, readers, lacking;
        bool is_held() const { return !holders.empty() || !readers.empty(); }
    };

    void add(std::uint32_t parcel, const Hosts& missing);
    void check_load(std::uint32_t host) const;

    const Facts& facts_;
    const HostTables& t_;
    std::vector<bool> nic_, disk_;  // by host: whether the bound names it
    std::vector<std::uint32_t> group_;
    std::uint64_t confined_ = 0;
    std::vector<std::uint64_t> transfers_;  // how many each host sends
    std::uint64_t element_ = 1;             // bytes of the largest element
};

void Sending::add(std::uint32_t parcel, const Hosts& missing) {
    std::map<std::uint32_t, Group> groups;
    Hosts holders, readers, near;
    for (std::int32_t host : facts_.holding(parcel)) {
        const bool needs = std::ranges::binary_search(facts_.needing(parcel), host);
        const bool reads = t_.state == "stores" && !needs;
        (reads ? groups[group_[host]].readers : groups[group_[host]].holders).push_back(host);
        (reads ? readers : holders).push_back(host);
    }
    for (std::int32_t host : missing) groups[group_[host]].lacking.push_back(host);
    std::uint64_t entered = 0;
    for (const auto& [number, group] : groups) {
        if (group.lacking.empty()) continue;
        if (group.is_held()) demand(parcel, group.readers, group.holders, 1);
        demand(parcel, {}, joined(group.holders, group.lacking), group.lacking.size() - 1);
        if (group.is_held())
            near.insert(near.end(), group.lacking.begin(), group.lacking.end());
        else
            ++entered;
    }
    if (entered > 0) demand(parcel, near.empty() ? readers : Hosts{}, joined(holders, near), 1);
    if (entered > 1) demand(parcel, {}, joined(holders, missing), entered - 1);
}

void Sending::check_load(std::uint32_t host) const {
    // Shares are rounded to bytes, and the ends of each transfer to elements.
    const double rounding = 2 + static_cast<double>(transfers_[host] * (element_ - 1));
    const auto too_long = [&](std::uint64_t bytes, double rate) {
        return static_cast<double>(bytes) > t_.sending_seconds * rate * (1 + 1e-12) + rounding;
    };
    if (too_long(t_.loads.nic_out[host], nic_rate(host)))
        throw failure("host '{}': sends {} bytes, which takes longer than the bound of {} s", t_.hosts.name[host],
                      t_.loads.nic_out[host], t_.sending_seconds);
    if (t_.state == "stores" && too_long(t_.loads.disk_read[host], disk_rate(host)))
        throw failure("host '{}': reads {} bytes, which takes longer than the bound of {} s", t_.hosts.name[host],
                      t_.loads.disk_read[host], t_.sending_seconds);
}

}  // namespace

void check_sending(const Facts& facts) { Sending{facts}.run(); }

}  // namespace tpx
