// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/owner_sets.hpp"
#include "lib/change/parcel.hpp"
#include "lib/change/shared_cuts.hpp"
#include "lib/change/stage_pairs.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/model_state.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace tpx {

/// Tensor classes, of any shapes, whose layers and experts are on the same ranks.
struct ClassGroup {
    std::vector<std::uint32_t> classes;
    bool experts = false;
    bool of_virtual_nodes = false;
    std::vector<StagePair> stages;
};

/// Roles that are sharded across the same ranks, in both layouts.
struct RoleGroup {
    Sharing from;
    Sharing to;
    std::vector<std::uint32_t> roles;
};

/// Who holds a box before and after, regardless of the stage.
struct OwnerPair {
    Owner from;
    Owner to;
    bool recut = false;  ///< the two layouts hold it as part of different boxes

    friend auto operator<=>(const OwnerPair&, const OwnerPair&) = default;
};

/// A box of a tensor that neither layout splits further.
struct SharedBox {
    Box box;
    OwnerPair owners;
};

/// Calls `visit` for all boxes that are products of cuts of `axes`; `outer` contains the cuts of earlier axes.
template <class Visit>
void for_each_shared_box(std::span<const std::vector<SharedCut>> axes, const SharedBox& outer, const Visit& visit) {
    if (axes.empty()) return visit(outer);
    for (const SharedCut& cut : axes.front()) {
        SharedBox inner = outer;
        inner.box.push_back(cut.interval);
        inner.owners.from.restrict_to(cut.from);
        inner.owners.to.restrict_to(cut.to);
        inner.owners.recut |= cut.recut;
        for_each_shared_box(axes.subspan(1), inner, visit);
    }
}

/// Adds up the elements of items with the same key. `items` are then sorted by key, and name the lowest of their
/// tensors.
template <class Item, class Key>
void sum_elements(std::vector<Item>& items, Key key) {
    std::ranges::sort(items, {}, [&](const Item& item) { return std::pair{key(item), item.tensor}; });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (kept > 0 && key(items[kept - 1]) == key(items[i]))
            items[kept - 1].elements += items[i].elements;
        else
            items[kept++] = items[i];
    }
    items.resize(kept);
}

/// Elements that a set of old ranks holds and a set of new ranks needs.
struct Overlap {
    std::uint32_t holders = 0;
    std::uint32_t needers = 0;
    bool recut = false;
    std::uint32_t tensor = 0;
    std::uint64_t elements = 0;

    auto key() const { return std::tuple{holders, needers, recut}; }
};

/// Two layouts of a model, and what follows from the model and the cuts alone: the boxes that neither layout splits
/// further, and who holds them. Layouts are products of cuts of single axes, so the work grows with the number of cuts,
/// not with the cuts times layers, experts or ranks.
class LayoutPair {
public:
    /// Elements of one layer that the same owners hold before and after.
    struct Profile {
        OwnerPair at;
        std::uint32_t tensor = 0;
        std::uint64_t elements = 0;
    };

    /// The sets of ranks in both layouts, for one group of roles and either the dense or the expert grid.
    struct Sets {
        OwnerSets from;
        OwnerSets to;

        std::pair<std::uint32_t, std::uint32_t> numbers(const StagePair& stages, OwnerPair at) {
            at.from.stage = stages.from;
            at.to.stage = stages.to;
            return {from.number(at.from), to.number(at.to)};
        }
    };

    /// `model` must outlive this. Throws Error (usage) if a layout is impossible, as model_parcels() does.
    LayoutPair(const ModelState& model, const Layout& from, const Layout& to);
    LayoutPair(const LayoutPair&) = delete;  // `sets_` refer to `holders` and `needers`
    LayoutPair& operator=(const LayoutPair&) = delete;

    const ModelState& model() const { return model_; }
    const ShardMap& from() const { return from_; }
    const ShardMap& to() const { return to_; }
    std::span<const ClassGroup> class_groups() const { return class_groups_; }
    std::span<const RoleGroup> role_groups() const { return role_groups_; }

    /// Whether the classes have the roles: only the class of virtual-node state has its role, and it has no other.
    static bool has(const ClassGroup& classes, const RoleGroup& roles) {
        return classes.of_virtual_nodes == (roles.to == Sharing::virtual_nodes);
    }

    /// For each axis of `kind`, the cuts that the two layouts make together.
    std::vector<std::vector<SharedCut>> axes(const TensorClass& kind, const RoleGroup& roles) const;

    /// The numbers of sets of ranks in `holders` and `needers`. A set is added when its number is first requested.
    Sets& sets(const RoleGroup& roles, bool experts);

    /// The elements of one layer of all `classes`, by who holds them.
    std::vector<Profile> profiles(const ClassGroup& classes, const RoleGroup& roles) const;

    /// The bytes of an element in all `roles` together.
    std::uint64_t bytes_of_element(const RoleGroup& roles) const;

    /// Calls `visit` with an Overlap for each profile and each pair of stages; a key may occur several times.
    template <class Visit>
    void for_each_overlap(const ClassGroup& classes, const RoleGroup& roles, Visit visit) {
        if (!has(classes, roles)) return;
        Sets& numbered = sets(roles, classes.experts);
        const std::vector<Profile> all = profiles(classes, roles);
        for (const StagePair& stages : classes.stages) {
            for (const Profile& profile : all) {
                const auto [old_set, new_set] = numbered.numbers(stages, profile.at);
                visit(Overlap{old_set, new_set, profile.at.recut, profile.tensor, profile.elements * stages.count()});
            }
        }
    }

    RankSets holders;  ///< sets of old ranks
    RankSets needers;  ///< sets of new ranks

private:
    static ShardMap map_of(const ModelState& model, const Layout& layout);
    void add_class(std::uint32_t number);
    void add_role(std::uint32_t role);

    const ModelState& model_;
    ShardMap from_;
    ShardMap to_;
    std::vector<ClassGroup> class_groups_;
    std::vector<RoleGroup> role_groups_;
    std::map<std::tuple<Sharing, Sharing, bool>, Sets> sets_;
};

}  // namespace tpx
