// SPDX-License-Identifier: Apache-2.0
#include "formats/state/optimizer_order.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace tpx::formats {
namespace {

using Order = std::vector<const StateDictEntry*>;

bool is_matrix(const Shape& shape) { return shape.size() > 1; }

bool fits(const Order& order, std::size_t count, const std::map<std::int64_t, Shape>& shapes) {
    return order.size() == count && std::ranges::all_of(shapes, [&](const auto& known) {
               return known.first >= 0 && known.first < static_cast<std::int64_t>(count) &&
                      order[static_cast<std::size_t>(known.first)]->shape == known.second;
           });
}

/// Deals parameters to several groups by their shapes: those of state say which group has which shape.
class Dealer {
public:
    Dealer(std::span<const std::vector<std::int64_t>> groups, const std::map<std::int64_t, Shape>& shapes)
        : groups_{groups}, dealt_(groups.size()) {
        for (std::size_t g = 0; g < groups.size(); ++g) {
            for (const std::int64_t number : groups[g])
                if (const auto known = shapes.find(number); known != shapes.end()) note(known->second, g);
        }
    }

    /// All of `order`, group after group; empty when a shape stands in two groups, or nothing tells a parameter's.
    Order deal(const Order& order) {
        for (const StateDictEntry* entry : order) {
            const auto known = group_of_.find(entry->shape);
            const std::optional<std::size_t> group = known != group_of_.end() ? known->second : by_axes(entry->shape);
            if (torn_ || !group) return {};
            dealt_[*group].push_back(entry);
        }
        Order all;
        for (std::size_t g = 0; g < dealt_.size(); ++g) {
            if (dealt_[g].size() != groups_[g].size()) return {};
            all.insert(all.end(), dealt_[g].begin(), dealt_[g].end());
        }
        return all;
    }

private:
    void note(const Shape& shape, std::size_t group) {
        torn_ |= group_of_.emplace(shape, group).first->second != group;
        of_axes_[is_matrix(shape)].insert(group);
    }

    /// For a shape without state: matrices may be in one group, and vectors in another one.
    std::optional<std::size_t> by_axes(const Shape& shape) const {
        const auto found = of_axes_.find(is_matrix(shape));
        const auto other = of_axes_.find(!is_matrix(shape));
        if (found == of_axes_.end() || found->second.size() != 1) return std::nullopt;
        if (other != of_axes_.end() && other->second.contains(*found->second.begin())) return std::nullopt;
        return *found->second.begin();
    }

    std::span<const std::vector<std::int64_t>> groups_;
    std::map<Shape, std::size_t> group_of_;
    std::map<bool, std::set<std::size_t>> of_axes_;  // the groups that have matrices, and those that have vectors
    bool torn_ = false;                              // a shape stands in two groups
    std::vector<Order> dealt_;
};

}  // namespace

void note_shape(std::map<std::int64_t, Shape>& shapes, std::int64_t number, const Shape& shape) {
    const auto [known, is_new] = shapes.emplace(number, shape);
    if (!is_new && volume(shape) > volume(known->second)) known->second = shape;
}

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
    const auto settle = [&](const Order& all) {
        Order dealt = groups.size() > 1 ? Dealer{groups, shapes}.deal(all) : all;
        return !shapes.empty() && fits(dealt, static_cast<std::size_t>(count), shapes) ? dealt : Order{};
    };
    Order settled = settle(order);
    if (settled.empty() && shapes.size() == static_cast<std::size_t>(count)) {
        // Frozen parameters have no number. Where all numbers have state, none of another shape can be one of them.
        std::erase_if(order, [&](const StateDictEntry* entry) {
            return std::ranges::none_of(shapes, [&](const auto& known) { return known.second == entry->shape; });
        });
        settled = settle(order);
    }
    std::vector<std::string> names;
    for (const StateDictEntry* entry : settled) names.push_back(entry->name);
    return names;
}

}  // namespace tpx::formats
