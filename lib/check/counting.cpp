// SPDX-License-Identifier: Apache-2.0
#include "lib/check/counting.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <array>

namespace tpx {
namespace {

struct Sums {
    std::uint64_t needed = 0, kept = 0, local = 0, same_host = 0, other_host = 0, storage = 0;
};

template <class Stored>
void compare(std::string_view what, const Stored& stored, const Sums& counted) {
    for (const auto& [name, a, b] :
         {std::tuple{"needed", stored.needed, counted.needed}, std::tuple{"kept", stored.kept, counted.kept},
          std::tuple{"local", stored.local, counted.local},
          std::tuple{"same_host", stored.same_host, counted.same_host},
          std::tuple{"other_host", stored.other_host, counted.other_host},
          std::tuple{"storage", stored.storage, counted.storage}}) {
        if (a != b) throw failure("{}: {} bytes {} are stored, {} counted", what, a, name, b);
    }
}

class Counting {
public:
    explicit Counting(const Facts& facts) : facts_{facts}, t_{facts.t}, roles_(t_.roles.name.size()) {
        ranks_on_.resize(static_cast<std::size_t>(facts.first_device.back()));
        for (std::size_t rank = 0; rank < facts.old_host.size(); ++rank) {
            if (facts.old_host[rank] >= 0 && t_.old_ranks.device[rank] >= 0)
                ranks_on_[t_.old_ranks.device[rank]].push_back(static_cast<std::int32_t>(rank));
        }
    }

    void run() {
        for (std::uint32_t parcel = 0; parcel < facts_.parcels(); ++parcel) count(parcel);
        Sums total;
        for (std::size_t r = 0; r < roles_.size(); ++r) {
            const auto& s = t_.roles;
            const Sums& c = roles_[r];
            compare("role '" + s.name[r] + "'",
                    Sums{s.needed[r], s.kept[r], s.local[r], s.same_host[r], s.other_host[r], s.storage[r]}, c);
            total = {total.needed + c.needed,         total.kept + c.kept,
                     total.local + c.local,           total.same_host + c.same_host,
                     total.other_host + c.other_host, total.storage + c.storage};
        }
        compare("all roles", t_.total, total);
        if (t_.bound != total.other_host + total.storage || t_.bound != t_.crossing)
            throw failure("bound: {} bytes are stored, {} must come into hosts", t_.bound,
                          total.other_host + total.storage);
    }

private:
    void count(std::uint32_t parcel);
    bool device_holds(std::uint32_t parcel, std::int32_t rank) const;

    const Facts& facts_;
    const HostTables& t_;
    std::vector<Sums> roles_;
    std::vector<std::vector<std::int32_t>> ranks_on_;  // old ranks by device
};

bool Counting::device_holds(std::uint32_t parcel, std::int32_t rank) const {
    const auto holders = facts_.holders(parcel);
    return std::ranges::any_of(ranks_on_[t_.new_devices[rank]],
                               [&](std::int32_t old) { return std::ranges::binary_search(holders, old); });
}

void Counting::count(std::uint32_t parcel) {
    const std::uint64_t bytes = t_.parcels.bytes[parcel];
    Sums& role = roles_[t_.parcels.role[parcel]];
    const auto holding = facts_.holding(parcel);
    for (std::int32_t rank : facts_.needers(parcel)) {
        role.needed += bytes;
        if (device_holds(parcel, rank))
            (t_.parcels.recut[parcel] ? role.local : role.kept) += bytes;
        else
            role.same_host += bytes;
    }
    // Into each host that lacks it, one of its ranks brings it for all.
    const std::uint64_t missing = facts_.missing(parcel).size() * bytes;
    role.same_host -= missing;
    (holding.empty() ? role.storage : role.other_host) += missing;
}

}  // namespace

void check_counts(const Facts& facts) { Counting{facts}.run(); }

}  // namespace tpx
