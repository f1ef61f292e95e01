// SPDX-License-Identifier: Apache-2.0
#include "formats/optimizer_order.hpp"

#include <algorithm>
#include <set>

namespace tpx::formats {
namespace {

using Order = std::vector<const StateDictEntry*>;

/// Those of `order` with more axes than one before the others, or behind them.
Order apart(const Order& order, bool matrices_first) {
    Order result = order;
    std::ranges::stable_partition(
        result, [&](const StateDictEntry* entry) { return (entry->shape.size() > 1) == matrices_first; });
    return result;
}

bool fits(const Order& order, std::size_t count, const std::map<std::int64_t, Shape>& shapes) {
    return order.size() == count && std::ranges::all_of(shapes, [&](const auto& known) {
               return known.first >= 0 && known.first < static_cast<std::int64_t>(count) &&
                      order[static_cast<std::size_t>(known.first)]->shape == known.second;
           });
}

}  // namespace

std::vector<std::string> parameters_by_number(std::span<const StateDictEntry> model,
                                              std::span<const std::vector<std::int64_t>> groups,
                                              const std::map<std::int64_t, Shape>& shapes) {
    std::int64_t count = 0;
    for (const auto& group : groups)
        for (const std::int64_t number : group)
            if (number != count++) return {};
    Order order;
    for (const StateDictEntry& entry : model)
        if (entry.parameter) order.push_back(&entry);
    std::set<Order> candidates{order};
    if (groups.size() == 2) {
        for (const bool matrices_first : {true, false}) {
            const auto first = std::ranges::count_if(
                order, [&](const StateDictEntry* entry) { return (entry->shape.size() > 1) == matrices_first; });
            if (first == std::ssize(groups[0])) candidates.insert(apart(order, matrices_first));
        }
    }
    std::erase_if(candidates, [&](const Order& one) { return !fits(one, static_cast<std::size_t>(count), shapes); });
    if (shapes.empty() || candidates.size() != 1) return {};
    std::vector<std::string> names;
    for (const StateDictEntry* entry : *candidates.begin()) names.push_back(entry->name);
    return names;
}

}  // namespace tpx::formats
