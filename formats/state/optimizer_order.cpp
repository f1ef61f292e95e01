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

/// Assigns parameters to several groups by their shapes; the shapes of state determine which group has which shapes.
class GroupAssigner {
public:
    GroupAssigner(std::span<const std::vector<std::int64_t>> groups, const std::map<std::int64_t, Shape>& shapes)
        : groups_{groups}, assigned_(groups.size()) {
        for (std::size_t g = 0; g < groups.size(); ++g) {
            for (const std::int64_t number : groups[g])
                if (const auto known = shapes.find(number); known != shapes.end()) note(known->second, g);
        }
    }

    /// All of `order`, group after group; empty if a shape is in two groups, or if a parameter's group is unknown.
    Order assign(const Order& order) {
        for (const StateDictEntry* entry : order) {
            const auto known = group_of_.find(entry->shape);
            const std::optional<std::size_t> group = known != group_of_.end() ? known->second : by_axes(entry->shape);
            if (ambiguous_ || !group) return {};
            assigned_[*group].push_back(entry);
        }
        Order all;
        for (std::size_t g = 0; g < assigned_.size(); ++g) {
            if (assigned_[g].size() != groups_[g].size()) return {};
            all.insert(all.end(), assigned_[g].begin(), assigned_[g].end());
        }
        return all;
    }

private:
    void note(const Shape& shape, std::size_t group) {
        ambiguous_ |= group_of_.emplace(shape, group).first->second != group;
        of_axes_[is_matrix(shape)].insert(group);
    }

    /// The group of a shape without state, if all known matrices are in one group and all known vectors in another.
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
    bool ambiguous_ = false;                         // a shape is in two groups
    std::vector<Order> assigned_;
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
        Order assigned = groups.size() > 1 ? GroupAssigner{groups, shapes}.assign(all) : all;
        return !shapes.empty() && fits(assigned, static_cast<std::size_t>(count), shapes) ? assigned : Order{};
    };
    Order settled = settle(order);
    if (settled.empty() && shapes.size() == static_cast<std::size_t>(count)) {
        // Frozen parameters have no number. If all numbers have state, parameters of other shapes are frozen.
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
