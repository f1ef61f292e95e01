// SPDX-License-Identifier: Apache-2.0
#include "lib/change/group_parcels.hpp"

#include "lib/change/layout_pair.hpp"

#include <algorithm>
#include <utility>

namespace tpx {
namespace {

/// Maps sets of ranks to sets of their groups. A set of groups is added when its number is first requested.
class GroupSets {
public:
    GroupSets(const RankSets& ranks, std::span<const std::int32_t> group_of) : ranks_{ranks}, group_of_{group_of} {}

    std::uint32_t number(std::uint32_t ranks) {
        if (ranks >= numbers_.size()) numbers_.resize(ranks_.size(), no_set);
        if (numbers_[ranks] == no_set) numbers_[ranks] = add(ranks_[ranks]);
        return numbers_[ranks];
    }
    RankSets take() { return std::move(sets_); }

private:
    static constexpr std::uint32_t no_set = ~0u;

    std::uint32_t add(std::span<const std::int32_t> ranks) {
        std::vector<std::int32_t> groups;
        for (std::int32_t rank : ranks) {
            const std::int32_t group = group_of_[rank];
            if (group >= 0 && (groups.empty() || groups.back() != group)) groups.push_back(group);
        }
        std::ranges::sort(groups);
        groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
        return sets_.add(groups);
    }

    const RankSets& ranks_;
    std::span<const std::int32_t> group_of_;
    RankSets sets_;
    std::vector<std::uint32_t> numbers_;  // of each set of ranks
};

/// The bytes of the smallest element of all roles.
std::uint32_t smallest_element(const ModelState& model) {
    std::uint32_t element = 8;
    for (const StateRole& role : model.roles)
        element = std::min(element, static_cast<std::uint32_t>(itemsize(role.dtype)));
    return element;
}

}  // namespace

Parcels group_parcels(const ModelState& model, const Layout& from, const Layout& to, const RankGroups& groups) {
    LayoutPair pair{model, from, to};
    GroupSets holders{pair.holders, groups.old_ranks};
    GroupSets needers{pair.needers, groups.new_ranks};
    std::vector<Overlap> overlaps;
    for (const RoleGroup& roles : pair.role_groups()) {
        const std::uint64_t bytes = pair.bytes_of_element(roles);
        for (const ClassGroup& classes : pair.class_groups()) {
            pair.for_each_overlap(classes, roles, [&](Overlap overlap) {
                overlap = {holders.number(overlap.holders), needers.number(overlap.needers), false, overlap.tensor,
                           overlap.elements * bytes};
                if (!overlaps.empty() && overlaps.back().key() == overlap.key())
                    overlaps.back().elements += overlap.elements;
                else
                    overlaps.push_back(overlap);
            });
        }
    }
    sum_elements(overlaps, [](const Overlap& overlap) { return overlap.key(); });
    Parcels parcels{.old_ranks = from.ranks(), .new_ranks = to.ranks(), .roles = {Role::state}};
    for (const TensorClass& kind : model.classes) parcels.tensors.push_back(kind.name);
    const std::uint32_t element = smallest_element(model);
    for (const Overlap& each : overlaps)
        parcels.parcels.push_back({each.holders, each.needers, 0, each.tensor, false, each.elements, element});
    parcels.holders = holders.take();
    parcels.needers = needers.take();
    return parcels;
}

}  // namespace tpx
