// SPDX-License-Identifier: Apache-2.0
#include "lib/change/mapped_rank_sets.hpp"

#include <algorithm>

namespace tpx {
namespace {

void sum_up(std::vector<Amount>& amounts) {
    const auto key = [](const Amount& amount) { return std::uint64_t{amount.needers} << 32 | amount.holders; };
    if (!std::ranges::is_sorted(amounts, {}, key)) std::ranges::sort(amounts, {}, key);
    std::size_t count = 0;
    for (const Amount& amount : amounts) {
        if (count != 0 && amounts[count - 1].needers == amount.needers && amounts[count - 1].holders == amount.holders)
            amounts[count - 1].bytes += amount.bytes;
        else
            amounts[count++] = amount;
    }
    amounts.resize(count);
}

}  // namespace

MappedRankSets map_rank_sets(const RankSets& sets, std::span<const std::int32_t> image_of) {
    MappedRankSets result;
    std::vector<std::int32_t> image;
    for (std::uint32_t number = 0; number < sets.size(); ++number) {
        image.clear();
        for (std::int32_t rank : sets[number]) {
            const std::int32_t on = image_of[static_cast<std::size_t>(rank)];
            if (on >= 0 && (image.empty() || image.back() != on)) image.push_back(on);
        }
        if (!std::ranges::is_sorted(image, std::ranges::less_equal{})) std::ranges::sort(image);
        image.erase(std::unique(image.begin(), image.end()), image.end());
        result.set.push_back(result.sets.add(image));
    }
    return result;
}

std::vector<Amount> sum_amounts(std::span<const Amount> amounts, std::span<const std::uint32_t> holders,
                                std::span<const std::uint32_t> needers) {
    std::vector<Amount> result;
    result.reserve(amounts.size());
    for (const Amount& amount : amounts)
        result.push_back({holders[amount.holders], needers[amount.needers], amount.bytes});
    sum_up(result);
    return result;
}

std::vector<Amount> amounts(const Parcels& parcels) {
    std::vector<Amount> result;
    result.reserve(parcels.parcels.size());
    for (const Parcel& parcel : parcels.parcels) result.push_back({parcel.holders, parcel.needers, parcel.bytes});
    sum_up(result);
    return result;
}

}  // namespace tpx
