// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/owner_sets.hpp"
#include "lib/change/parcel.hpp"
#include "lib/change/shared_cuts.hpp"
#include "lib/change/stage_pairs.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/model.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace tpx {

/// Tensor classes whose layers and experts are on the same ranks, whatever their shapes.
struct ClassGroup {
    std::vector<std::uint32_t> classes;
    bool experts = false;
    bool of_virtual_nodes = false;
    std::vector<StagePair> stages;
};

/// Roles that both layouts share among the same ranks.
struct RoleGroup {
    Sharing from;
    Sharing to;
    std::vector<std::uint32_t> roles;
};

/// Who holds a box before and after, on any one stage.
struct OwnerPair {
    Owner from;
    Owner to;
    bool recut = false;  ///< the two layouts hold it in different boxes

    friend auto operator<=>(const OwnerPair&, const OwnerPair&) = default;
};

/// A box of a tensor that both layouts leave whole.
struct SharedBox {
    Box box;
    OwnerPair owners;
};

/// Calls `visit` for all boxes that are products of cuts of `axes`, with what `outer` has of earlier axes.
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

/// Adds up the elements of items that have the same key; `items` become sorted by it, and name the lowest tensor.
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

/// Two layouts of a model, with all that follows from the model and the cuts alone: which boxes both leave whole, and
/// who holds them. Layouts are products of cuts of single axes, so that the work grows with the cuts, not with layers,
/// experts or ranks times them.
class LayoutPair {
public:
    /// Elements of one layer that the same owners hold before and after.
    struct Profile {
        OwnerPair at;
        std::uint32_t tensor = 0;
        std::uint64_t elements = 0;
    };

    /// The sets of ranks on either side, for one group of roles and one of the grids.
    struct Sets {
        OwnerSets from;
        OwnerSets to;

        std::pair<std::uint32_t, std::uint32_t> numbers(const StagePair& stages, OwnerPair at) {
            at.from.stage = stages.from;
            at.to.stage = stages.to;
            return {from.number(at.from), to.number(at.to)};
        }
    };

    /// `model` must outlive this. Throws Error (usage) when a layout is impossible, as spread() does.
    LayoutPair(const ModelState& model, const Layout& from, const Layout& to);
    LayoutPair(const LayoutPair&) = delete;  // `sets_` refer to `holders` and `needers`
    LayoutPair& operator=(const LayoutPair&) = delete;

    const ModelState& model() const { return model_; }
    const ShardMap& from() const { return from_; }
    const ShardMap& to() const { return to_; }
    std::span<const ClassGroup> class_groups() const { return class_groups_; }
    std::span<const RoleGroup> role_groups() const { return role_groups_; }

    /// Whether the classes have the roles: state of virtual nodes is a role of its own class only.
    static bool has(const ClassGroup& classes, const RoleGroup& roles) {
        return classes.of_virtual_nodes == (roles.to == Sharing::virtual_nodes);
    }

    /// The cuts of each axis of `kind` that either layout makes.
    std::vector<std::vector<SharedCut>> axes(const TensorClass& kind, const RoleGroup& roles) const;

    /// The numbers of sets of ranks: in `holders` and `needers`, which receive a set when it is first asked for.
    Sets& sets(const RoleGroup& roles, bool experts);

    /// The boxes of all classes of `classes` by who holds them, of one layer.
    std::vector<Profile> profiles(const ClassGroup& classes, const RoleGroup& roles) const;

    /// Bytes that an element has in all roles of `roles` together.
    std::uint64_t bytes_of_element(const RoleGroup& roles) const;

    /// Calls `visit` with the Overlap of each of the profiles on each pair of stages; keys may come several times.
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
