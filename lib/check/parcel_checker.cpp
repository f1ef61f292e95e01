// SPDX-License-Identifier: Apache-2.0
#include "lib/check/parcel_checker.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tpx {
namespace {

std::uint64_t hash(std::span<const std::int32_t> ranks) {
    std::uint64_t state = 0x9e3779b97f4a7c15;
    for (std::int32_t rank : ranks) {
        state ^= static_cast<std::uint32_t>(rank);
        state *= 0xff51afd7ed558ccd;
        state ^= state >> 32;
    }
    return state;
}

}  // namespace

SetNumbers::SetNumbers(const ListColumn& sets) : sets_{sets} {
    for (std::uint32_t k = 0; k + 1 < sets.begin.size(); ++k) {
        if (find((*this)[k])) throw failure("sets of ranks: set {} appears twice", k);
        numbers_.emplace(hash((*this)[k]), k);
    }
}

std::span<const std::int32_t> SetNumbers::operator[](std::size_t set) const {
    return std::span{sets_.values}.subspan(sets_.begin[set], sets_.begin[set + 1] - sets_.begin[set]);
}

std::optional<std::uint32_t> SetNumbers::find(std::span<const std::int32_t> ranks) const {
    const auto [begin, end] = numbers_.equal_range(hash(ranks));
    for (auto candidate = begin; candidate != end; ++candidate) {
        if (std::ranges::equal((*this)[candidate->second], ranks)) return candidate->second;
    }
    return std::nullopt;
}

auto ParcelChecker::key(std::uint32_t parcel) const {
    const auto& p = tables_.parcels;
    return std::tuple{p.needers[parcel], p.holders[parcel], p.role[parcel], p.recut[parcel], p.element[parcel]};
}

ParcelChecker::ParcelChecker(const HostTables& tables)
    : tables_{tables}, holders_{tables.holders}, needers_{tables.needers}, found_(tables.parcels.bytes.size()) {
    order_.resize(found_.size());
    std::iota(order_.begin(), order_.end(), 0u);
    std::ranges::sort(order_, {}, [&](std::uint32_t parcel) { return key(parcel); });
    for (std::size_t i = 1; i < order_.size(); ++i) {
        if (key(order_[i - 1]) == key(order_[i]))
            throw failure("parcels {} and {} are of the same ranks and role", order_[i - 1], order_[i]);
    }
    const std::size_t sets = tables.needers.begin.size() - 1;
    of_needers_.assign(sets + 1, 0);
    for (std::uint32_t set : tables.parcels.needers) ++of_needers_[set + 1];
    std::partial_sum(of_needers_.begin(), of_needers_.end(), of_needers_.begin());

    sets_of_rank_.begin.assign(tables.new_devices.size() + 1, 0);
    for (std::int32_t rank : tables.needers.values) ++sets_of_rank_.begin[rank + 1];
    std::partial_sum(sets_of_rank_.begin.begin(), sets_of_rank_.begin.end(), sets_of_rank_.begin.begin());
    sets_of_rank_.values.resize(tables.needers.values.size());
    std::vector<std::uint64_t> next = sets_of_rank_.begin;
    for (std::size_t set = 0; set < sets; ++set) {
        for (std::int32_t rank : needers_[set]) sets_of_rank_.values[next[rank]++] = static_cast<std::int32_t>(set);
    }
}

std::uint32_t ParcelChecker::add(std::uint32_t holders, std::uint32_t needers, std::uint32_t role, bool recut,
                                 std::uint32_t tensor, std::uint64_t elements, std::uint32_t element) {
    const std::uint64_t bytes = elements * element;
    const auto parcels =
        std::span{order_}.subspan(of_needers_[needers], of_needers_[needers + 1] - of_needers_[needers]);
    const auto wanted = std::tuple{needers, holders, role, std::uint32_t{recut}, element};
    const auto at = std::ranges::lower_bound(parcels, wanted, {}, [&](std::uint32_t parcel) { return key(parcel); });
    if (at == parcels.end() || key(*at) != wanted)
        throw failure("role '{}': no parcel has the {} bytes that set {} of old ranks holds{} and set {} needs",
                      tables_.roles.name[role], bytes, holders, recut ? " in other pieces" : "", needers);
    Found& found = found_[*at];
    open_ += found.bytes == 0;
    found.bytes += bytes;
    found.tensor = std::min(found.tensor, tensor);
    return *at;
}

void ParcelChecker::close(std::int32_t rank) {
    for (std::uint64_t i = sets_of_rank_.begin[rank]; i < sets_of_rank_.begin[rank + 1]; ++i) {
        const std::int32_t set = sets_of_rank_.values[i];
        for (std::uint32_t at = of_needers_[set]; at < of_needers_[set + 1]; ++at) {
            const std::uint32_t parcel = order_[at];
            Found& found = found_[parcel];
            if (found.bytes != tables_.parcels.bytes[parcel])
                throw failure("rank {}: parcel {} has {} bytes, the rank needs {} of them", rank, parcel,
                              tables_.parcels.bytes[parcel], found.bytes);
            if (found.tensor != tables_.parcels.tensor[parcel])
                throw failure("rank {}: the first tensor of parcel {} is number {}, not {}", rank, parcel, found.tensor,
                              tables_.parcels.tensor[parcel]);
            found = {};
            --open_;
            ++compared_;
        }
    }
    if (open_ != 0) throw failure("rank {}: needs state of {} parcels that name other ranks", rank, open_);
}

}  // namespace tpx
