// SPDX-License-Identifier: Apache-2.0
#include "lib/change/spread.hpp"

#include "lib/change/cuts.hpp"
#include "lib/change/digits.hpp"
#include "lib/change/end.hpp"
#include "lib/change/model_check.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace tpx {
namespace {

/// Classes of which the same layers and experts are on the same ranks, whatever their shapes.
struct Alike {
    std::vector<std::uint32_t> classes;
    bool experts = false;
    std::vector<StagePair> stages;
    std::vector<SharedCut> blocks;  // intervals of experts; `part` is their block
};

/// Roles that both layouts share among the same ranks.
struct RoleGroup {
    Sharing from;
    Sharing to;
    std::vector<std::uint32_t> roles;
};

/// Who has something on either side, of the ranks of one stage and one block of experts.
struct Owners {
    int from_part = -1;
    int from_shard = -1;
    int to_part = -1;
    int to_shard = -1;
    bool recut = false;

    void add(const SharedCut& cut) {
        from_part = std::max(from_part, cut.from.part);
        from_shard = std::max(from_shard, cut.from.shard);
        to_part = std::max(to_part, cut.to.part);
        to_shard = std::max(to_shard, cut.to.shard);
        recut = recut || cut.recut();
    }
    friend auto operator<=>(const Owners&, const Owners&) = default;
};

/// A box that both layouts leave whole.
struct Meeting {
    Box box;
    Owners owners;
};

template <class Visit>
void for_each_meeting(std::span<const std::vector<SharedCut>> axes, const Meeting& outer, const Visit& visit) {
    if (axes.empty()) return visit(outer);
    for (const SharedCut& cut : axes.front()) {
        Meeting inner = outer;
        inner.box.push_back(cut.interval);
        inner.owners.add(cut);
        for_each_meeting(axes.subspan(1), inner, visit);
    }
}

/// Elements that a set of old ranks holds and a set of new ranks needs.
struct Amount {
    std::uint32_t holders = 0;
    std::uint32_t needers = 0;
    bool recut = false;
    std::uint32_t tensor = 0;
    std::uint64_t elements = 0;

    auto key() const { return std::tuple{holders, needers, recut}; }
};

/// Adds up what has the same key; `items` become sorted by it, and name the lowest tensor.
template <class Item, class Key>
void add_up(std::vector<Item>& items, Key key) {
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

class Spread {
public:
    Spread(const ModelState& model, const Layout& from, const Layout& to)
        : model_{(check_model(model), model)}, from_{make_end(model, from)}, to_{make_end(model, to)} {
        for (std::uint32_t number = 0; number < model.classes.size(); ++number) add_class(number);
        for (std::uint32_t role = 0; role < model.roles.size(); ++role) add_role(role);
        result_.old_ranks = from.ranks();
        result_.new_ranks = to.ranks();
        for (const StateRole& role : model.roles) result_.roles.push_back(role.name);
        for (const TensorClass& kind : model.classes) result_.tensors.push_back(kind.name);
        for (const RoleGroup& group : groups_) add_parcels(group);
    }

    Parcels take() { return std::move(result_); }
    void cells(const std::function<void(const Cell&)>& visit);

private:
    /// The two sides of one grid, for one group of roles.
    struct Pair {
        Digits from;
        Digits to;
        std::pair<std::uint32_t, std::uint32_t> sets(const StagePair& stages, const SharedCut& block,
                                                     const Owners& at) {
            return {from.set(stages.from, std::max(block.from.part, 0), at.from_part, at.from_shard),
                    to.set(stages.to, std::max(block.to.part, 0), at.to_part, at.to_shard)};
        }
    };

    void add_class(std::uint32_t number);
    void add_role(std::uint32_t role);
    std::vector<std::vector<SharedCut>> axes(const TensorClass& kind, const RoleGroup& group) const;
    Pair& pair(const RoleGroup& group, bool experts);
    void add_amounts(const Alike& alike, const RoleGroup& group, std::vector<Amount>& amounts);
    void add_parcels(const RoleGroup& group);
    void class_cells(Cell& cell, const Alike& alike, std::size_t group, const std::function<void(const Cell&)>& visit);

    const ModelState& model_;
    End from_;
    End to_;
    std::vector<Alike> alike_;
    std::vector<RoleGroup> groups_;
    std::map<std::tuple<Sharing, Sharing, bool>, Pair> pairs_;
    Parcels result_;
    std::vector<std::vector<Amount>> amounts_;  // of each group, sorted; each is a parcel for each of its roles
    std::vector<std::uint32_t> first_parcel_;   // of each group
    std::vector<std::uint64_t> used_;           // of each parcel: bytes of cells visited so far
};

void Spread::add_class(std::uint32_t number) {
    const TensorClass& kind = model_.classes[number];
    const auto same = [&](const Alike& other) {
        const TensorClass& first = model_.classes[other.classes.front()];
        return first.experts == kind.experts && first.layers == kind.layers &&
               (!kind.layers.empty() || (first.first == kind.first && first.last == kind.last));
    };
    const auto known = std::ranges::find_if(alike_, same);
    if (known != alike_.end()) return known->classes.push_back(number);
    const Index experts = std::max<Index>(kind.experts, 1);
    const bool has_experts = kind.experts > 0;
    alike_.push_back({{number},
                      has_experts,
                      stage_pairs(kind, from_, to_),
                      merge(equal_cuts(experts, has_experts ? from_.layout.ep : 1),
                            equal_cuts(experts, has_experts ? to_.layout.ep : 1))});
}

void Spread::add_role(std::uint32_t role) {
    const bool optimizer = model_.roles[role].is_optimizer();
    const Sharing from = sharing_of(from_.layout, optimizer);
    const Sharing to = sharing_of(to_.layout, optimizer);
    for (RoleGroup& group : groups_) {
        if (group.from == from && group.to == to) return group.roles.push_back(role);
    }
    groups_.push_back({from, to, {role}});
}

std::vector<std::vector<SharedCut>> Spread::axes(const TensorClass& kind, const RoleGroup& group) const {
    const auto cuts = [&](const End& end, Sharing sharing) {
        const Grid& grid = end.grid(kind.experts > 0);
        return cuts_of(kind, grid.parts, shards(grid, sharing), end.layout.fsdp_dim);
    };
    const std::vector<Cuts> from = cuts(from_, group.from);
    const std::vector<Cuts> to = cuts(to_, group.to);
    std::vector<std::vector<SharedCut>> axes;
    for (std::size_t axis = 0; axis < from.size(); ++axis) axes.push_back(merge(from[axis], to[axis]));
    return axes;
}

Spread::Pair& Spread::pair(const RoleGroup& group, bool experts) {
    const auto key = std::tuple{group.from, group.to, experts};
    const auto known = pairs_.find(key);
    if (known != pairs_.end()) return known->second;
    Pair made{{from_.grid(experts), group.from, result_.holders}, {to_.grid(experts), group.to, result_.needers}};
    return pairs_.emplace(key, std::move(made)).first->second;
}

void Spread::add_amounts(const Alike& alike, const RoleGroup& group, std::vector<Amount>& amounts) {
    struct Profile {
        Owners at;
        std::uint32_t tensor;
        std::uint64_t elements;
    };
    std::vector<Profile> profiles;
    for (std::uint32_t number : alike.classes) {
        for_each_meeting(axes(model_.classes[number], group), {}, [&](const Meeting& at) {
            profiles.push_back({at.owners, number, static_cast<std::uint64_t>(volume(at.box))});
        });
    }
    add_up(profiles, [](const Profile& profile) { return profile.at; });
    Pair& digits = pair(group, alike.experts);
    for (const StagePair& stages : alike.stages) {
        for (const SharedCut& block : alike.blocks) {
            const std::uint64_t tensors = stages.count() * static_cast<std::uint64_t>(block.interval.size());
            for (const Profile& profile : profiles) {
                const auto [holders, needers] = digits.sets(stages, block, profile.at);
                amounts.push_back({holders, needers, profile.at.recut, profile.tensor, profile.elements * tensors});
            }
        }
    }
}

void Spread::add_parcels(const RoleGroup& group) {
    std::vector<Amount> amounts;
    for (const Alike& alike : alike_) add_amounts(alike, group, amounts);
    add_up(amounts, [](const Amount& amount) { return amount.key(); });
    first_parcel_.push_back(static_cast<std::uint32_t>(result_.parcels.size()));
    for (const Amount& amount : amounts) {
        for (std::uint32_t role : group.roles) {
            const auto element = static_cast<std::uint32_t>(itemsize(model_.roles[role].dtype));
            result_.parcels.push_back({amount.holders, amount.needers, role, amount.tensor, amount.recut,
                                       amount.elements * element, element});
        }
    }
    amounts_.push_back(std::move(amounts));
}

void Spread::class_cells(Cell& cell, const Alike& alike, std::size_t number,
                         const std::function<void(const Cell&)>& visit) {
    const RoleGroup& group = groups_[number];
    const auto shared = axes(model_.classes[cell.tensor_class], group);
    Pair& digits = pair(group, alike.experts);
    for (const StagePair& stages : alike.stages) {
        cell.layers = stages.layers;
        for (const SharedCut& block : alike.blocks) {
            cell.experts = alike.experts ? block.interval : Interval{};
            const std::uint64_t tensors = stages.count() * static_cast<std::uint64_t>(block.interval.size());
            for_each_meeting(shared, {}, [&](const Meeting& at) {
                cell.box = at.box;
                const auto [holders, needers] = digits.sets(stages, block, at.owners);
                const auto key = std::tuple{holders, needers, at.owners.recut};
                const auto found = std::ranges::lower_bound(amounts_[number], key, {}, &Amount::key);
                const auto slot = static_cast<std::size_t>(found - amounts_[number].begin());
                cell.parcel = first_parcel_[number] + static_cast<std::uint32_t>(slot * group.roles.size());
                for (std::uint32_t role : group.roles) {
                    cell.role = role;
                    cell.begin = used_[cell.parcel];
                    cell.bytes = static_cast<std::uint64_t>(volume(at.box)) * tensors *
                                 static_cast<std::uint64_t>(itemsize(model_.roles[role].dtype));
                    visit(cell);
                    used_[cell.parcel++] += cell.bytes;
                }
            });
        }
    }
}

void Spread::cells(const std::function<void(const Cell&)>& visit) {
    used_.assign(result_.parcels.size(), 0);
    for (std::size_t group = 0; group < groups_.size(); ++group) {
        for (const Alike& alike : alike_) {
            for (std::uint32_t number : alike.classes) {
                Cell cell{.tensor_class = number};
                class_cells(cell, alike, group, visit);
            }
        }
    }
}

}  // namespace

Parcels spread(const ModelState& model, const Layout& from, const Layout& to) { return Spread{model, from, to}.take(); }

void for_each_cell(const ModelState& model, const Layout& from, const Layout& to,
                   const std::function<void(const Cell&)>& visit) {
    Spread{model, from, to}.cells(visit);
}

std::vector<std::uint64_t> held_bytes(const ModelState& model, const Layout& layout) {
    const Parcels parcels = spread(model, layout, layout);
    std::vector<std::uint64_t> held(layout.ranks(), 0);
    for (const Parcel& parcel : parcels.parcels) {
        for (std::int32_t rank : parcels.needers[parcel.needers]) held[rank] += parcel.bytes;
    }
    return held;
}

}  // namespace tpx
