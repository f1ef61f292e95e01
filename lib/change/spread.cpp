// SPDX-License-Identifier: Apache-2.0
#include "lib/change/spread.hpp"

#include "lib/change/model_check.hpp"
#include "lib/change/owner_sets.hpp"
#include "lib/change/shared_cuts.hpp"
#include "lib/change/stage_pairs.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace tpx {
namespace {

/// Classes whose layers and experts are on the same ranks, whatever their shapes.
struct Alike {
    std::vector<std::uint32_t> classes;
    bool experts = false;
    std::vector<StagePair> stages;
};

/// Roles that both layouts share among the same ranks.
struct RoleGroup {
    Sharing from;
    Sharing to;
    std::vector<std::uint32_t> roles;
};

/// Who holds a box before and after, on any one stage.
struct Owners {
    Owner from;
    Owner to;
    bool recut = false;

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
        inner.owners.from.restrict_to(cut.from);
        inner.owners.to.restrict_to(cut.to);
        inner.owners.recut |= cut.recut;
        for_each_meeting(axes.subspan(1), inner, visit);
    }
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

/// Takes the box of the stacked experts apart into experts and the box of each.
void set_box(Cell& cell, const Box& box, bool experts) {
    cell.experts = experts ? box[0] : Interval{};
    cell.box = {};
    for (int axis = experts ? 1 : 0; axis < box.size(); ++axis) cell.box.push_back(box[axis]);
}

/// What of one layer the same owners hold before and after.
struct Profile {
    Owners at;
    std::uint32_t tensor = 0;
    std::uint64_t elements = 0;
};

/// Sets of ranks as sets of their groups, which get numbers when they are first asked for.
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

class Spread {
public:
    Spread(const ModelState& model, const Layout& from, const Layout& to)
        : model_{(check_model(model), model)}, from_{map_of(model, from)}, to_{map_of(model, to)} {
        for (std::uint32_t number = 0; number < model.classes.size(); ++number) add_class(number);
        for (std::uint32_t role = 0; role < model.roles.size(); ++role) add_role(role);
        result_.old_ranks = from.ranks();
        result_.new_ranks = to.ranks();
        for (const StateRole& role : model.roles) result_.roles.push_back(role.name);
        for (const TensorClass& kind : model.classes) result_.tensors.push_back(kind.name);
    }

    Parcels take() {
        for (const RoleGroup& group : groups_) add_parcels(group);
        return std::move(result_);
    }
    void cells(const std::function<void(const Cell&)>& visit);
    Parcels take_groups(const RankGroups& groups);
    HeldBytes held(std::span<const std::int32_t> group_of_rank, std::size_t groups);

private:
    /// The sets of ranks on either side, for one group of roles and one of the grids.
    struct Sets {
        OwnerSets from;
        OwnerSets to;

        std::pair<std::uint32_t, std::uint32_t> numbers(const StagePair& stages, Owners at) {
            at.from.stage = stages.from;
            at.to.stage = stages.to;
            return {from.number(at.from), to.number(at.to)};
        }
    };

    static ShardMap map_of(const ModelState& model, const Layout& layout);
    void add_class(std::uint32_t number);
    void add_role(std::uint32_t role);
    std::vector<std::vector<SharedCut>> axes(const TensorClass& kind, const RoleGroup& group) const;
    Sets& sets(const RoleGroup& group, bool experts);
    std::vector<Profile> profiles(const Alike& alike, const RoleGroup& group) const;
    template <class Visit>
    void for_each_overlap(const Alike& alike, const RoleGroup& group, std::span<const Profile> profiles, Visit visit);
    std::uint64_t bytes_of_element(const RoleGroup& group) const;
    template <class Visit>
    void for_each_held(const Alike& alike, const RoleGroup& group, int stage, Visit visit);
    void add_held(const Alike& alike, const RoleGroup& group, int stage, std::span<const StagePair* const> pairs,
                  std::span<const std::int32_t> group_of_rank, HeldBytes& held);
    void add_parcels(const RoleGroup& group);
    void class_cells(Cell& cell, const Alike& alike, std::size_t group, const std::function<void(const Cell&)>& visit);

    const ModelState& model_;
    ShardMap from_;
    ShardMap to_;
    std::vector<Alike> alike_;
    std::vector<RoleGroup> groups_;
    std::map<std::tuple<Sharing, Sharing, bool>, Sets> sets_;
    Parcels result_;
    std::vector<std::vector<Overlap>> overlaps_;  // of each group, sorted; each is a parcel for each of its roles
    std::vector<std::uint32_t> first_parcel_;     // of each group
    std::vector<std::uint64_t> used_;             // of each parcel: bytes of cells visited so far
};

ShardMap Spread::map_of(const ModelState& model, const Layout& layout) {
    check_cuts(model, layout);
    return in_context([&] { return to_string(layout); },
                      [&] {
                          if (layout.efsdp > 0)
                              throw Error{Exit::usage, "layout: efsdp= is for checkpoints; models are not planned so"};
                          const bool experts = std::ranges::any_of(
                              model.classes, [](const TensorClass& kind) { return kind.experts > 0; });
                          grid_of(layout, experts);  // throws when the experts have no place on the ranks
                          std::vector<int> stages;
                          if (model.layers > 0) stages = stages_of_layers(layout, model.layers);
                          return ShardMap{layout, {.equal = true}, std::move(stages)};
                      });
}

void Spread::add_class(std::uint32_t number) {
    const TensorClass& kind = model_.classes[number];
    const auto same = [&](const Alike& other) {
        const TensorClass& first = model_.classes[other.classes.front()];
        return first.experts == kind.experts && first.layers == kind.layers &&
               (!kind.layers.empty() || (first.first == kind.first && first.last == kind.last));
    };
    const auto known = std::ranges::find_if(alike_, same);
    if (known != alike_.end()) return known->classes.push_back(number);
    alike_.push_back({{number}, kind.experts > 0, stage_pairs(kind, from_, to_)});
}

void Spread::add_role(std::uint32_t role) {
    const bool optimizer = model_.roles[role].is_optimizer();
    const Sharing from = sharing_of(from_.layout(), optimizer);
    const Sharing to = sharing_of(to_.layout(), optimizer);
    for (RoleGroup& group : groups_) {
        if (group.from == from && group.to == to) return group.roles.push_back(role);
    }
    groups_.push_back({from, to, {role}});
}

std::vector<std::vector<SharedCut>> Spread::axes(const TensorClass& kind, const RoleGroup& group) const {
    const TensorForm form = form_of(kind);
    const std::vector<Cuts> from = from_.cuts(form, group.from);
    const std::vector<Cuts> to = to_.cuts(form, group.to);
    std::vector<std::vector<SharedCut>> axes;
    for (std::size_t axis = 0; axis < from.size(); ++axis) axes.push_back(shared_cuts(from[axis], to[axis]));
    // An expert is a tensor of its own: which others lie beside it is no cut.
    if (form.expert_axis >= 0) {
        for (SharedCut& cut : axes[static_cast<std::size_t>(form.expert_axis)]) cut.recut = false;
    }
    return axes;
}

Spread::Sets& Spread::sets(const RoleGroup& group, bool experts) {
    const auto key = std::tuple{group.from, group.to, experts};
    const auto known = sets_.find(key);
    if (known != sets_.end()) return known->second;
    Sets made{{grid_of(from_.layout(), experts), group.from, result_.holders},
              {grid_of(to_.layout(), experts), group.to, result_.needers}};
    return sets_.emplace(key, std::move(made)).first->second;
}

/// The boxes of all classes of `alike` by who holds them, of one layer.
std::vector<Profile> Spread::profiles(const Alike& alike, const RoleGroup& group) const {
    std::vector<Profile> profiles;
    for (std::uint32_t number : alike.classes) {
        for_each_meeting(axes(model_.classes[number], group), {}, [&](const Meeting& at) {
            profiles.push_back({at.owners, number, static_cast<std::uint64_t>(volume(at.box))});
        });
    }
    add_up(profiles, [](const Profile& profile) { return profile.at; });
    return profiles;
}

template <class Visit>
void Spread::for_each_overlap(const Alike& alike, const RoleGroup& group, std::span<const Profile> profiles,
                              Visit visit) {
    Sets& numbered = sets(group, alike.experts);
    for (const StagePair& stages : alike.stages) {
        for (const Profile& profile : profiles) {
            const auto [holders, needers] = numbered.numbers(stages, profile.at);
            visit(Overlap{holders, needers, profile.at.recut, profile.tensor, profile.elements * stages.count()});
        }
    }
}

void Spread::add_parcels(const RoleGroup& group) {
    std::vector<Overlap> overlaps;
    for (const Alike& alike : alike_)
        for_each_overlap(alike, group, profiles(alike, group),
                         [&](const Overlap& overlap) { overlaps.push_back(overlap); });
    add_up(overlaps, [](const Overlap& overlap) { return overlap.key(); });
    first_parcel_.push_back(static_cast<std::uint32_t>(result_.parcels.size()));
    for (const Overlap& overlap : overlaps) {
        for (std::uint32_t role : group.roles) {
            const auto element = static_cast<std::uint32_t>(itemsize(model_.roles[role].dtype));
            result_.parcels.push_back({overlap.holders, overlap.needers, role, overlap.tensor, overlap.recut,
                                       overlap.elements * element, element});
        }
    }
    overlaps_.push_back(std::move(overlaps));
}

void Spread::class_cells(Cell& cell, const Alike& alike, std::size_t number,
                         const std::function<void(const Cell&)>& visit) {
    const RoleGroup& group = groups_[number];
    const auto shared = axes(model_.classes[cell.tensor_class], group);
    Sets& numbered = sets(group, alike.experts);
    for (const StagePair& stages : alike.stages) {
        cell.layers = stages.layers;
        for_each_meeting(shared, {}, [&](const Meeting& at) {
            set_box(cell, at.box, alike.experts);
            const auto [holders, needers] = numbered.numbers(stages, at.owners);
            const auto key = std::tuple{holders, needers, at.owners.recut};
            const auto found = std::ranges::lower_bound(overlaps_[number], key, {}, &Overlap::key);
            const auto slot = static_cast<std::size_t>(found - overlaps_[number].begin());
            cell.parcel = first_parcel_[number] + static_cast<std::uint32_t>(slot * group.roles.size());
            for (std::uint32_t role : group.roles) {
                cell.role = role;
                cell.begin = used_[cell.parcel];
                cell.bytes = static_cast<std::uint64_t>(volume(at.box)) * stages.count() *
                             static_cast<std::uint64_t>(itemsize(model_.roles[role].dtype));
                visit(cell);
                used_[cell.parcel++] += cell.bytes;
            }
        });
    }
}

void Spread::cells(const std::function<void(const Cell&)>& visit) {
    for (const RoleGroup& group : groups_) add_parcels(group);
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

std::uint64_t Spread::bytes_of_element(const RoleGroup& group) const {
    std::uint64_t bytes = 0;
    for (std::uint32_t role : group.roles) bytes += static_cast<std::uint64_t>(itemsize(model_.roles[role].dtype));
    return bytes;
}

Parcels Spread::take_groups(const RankGroups& groups) {
    GroupSets holders{result_.holders, groups.old_ranks};
    GroupSets needers{result_.needers, groups.new_ranks};
    std::vector<Overlap> overlaps;
    for (const RoleGroup& group : groups_) {
        const std::uint64_t bytes = bytes_of_element(group);
        for (const Alike& alike : alike_) {
            for_each_overlap(alike, group, profiles(alike, group), [&](Overlap overlap) {
                overlap = {holders.number(overlap.holders), needers.number(overlap.needers), false, overlap.tensor,
                           overlap.elements * bytes};
                if (!overlaps.empty() && overlaps.back().key() == overlap.key())
                    overlaps.back().elements += overlap.elements;
                else
                    overlaps.push_back(overlap);
            });
        }
    }
    add_up(overlaps, [](const Overlap& overlap) { return overlap.key(); });
    std::uint32_t element = 8;
    for (const StateRole& role : model_.roles)
        element = std::min(element, static_cast<std::uint32_t>(itemsize(role.dtype)));
    for (const Overlap& each : overlaps)
        result_.parcels.push_back({each.holders, each.needers, 0, each.tensor, false, each.elements, element});
    result_.roles = {"all"};
    result_.holders = holders.take();
    result_.needers = needers.take();
    return std::move(result_);
}

/// Calls `visit` for each set of new ranks on `stage` and the bytes that it holds of one layer of all classes of
/// `alike`.
template <class Visit>
void Spread::for_each_held(const Alike& alike, const RoleGroup& group, int stage, Visit visit) {
    const Grid grid = grid_of(to_.layout(), alike.experts);
    const auto parts = static_cast<std::size_t>(grid.part.size) + 1;
    const auto shards = static_cast<std::size_t>(grid.shards(group.to)) + 1;
    std::vector<std::uint64_t> held((static_cast<std::size_t>(grid.block.size) + 1) * parts * shards, 0);
    for (std::uint32_t number : alike.classes) {
        for (const Shard& shard : to_.shards(form_of(model_.classes[number]), group.to)) {
            const auto at = [](int coordinate) { return static_cast<std::size_t>(coordinate + 1); };
            held[(at(shard.owner.block) * parts + at(shard.owner.part)) * shards + at(shard.owner.shard)] +=
                static_cast<std::uint64_t>(volume(shard.box));
        }
    }
    OwnerSets& needers = sets(group, alike.experts).to;
    for (std::size_t at = 0; at < held.size(); ++at) {
        if (held[at] == 0) continue;
        const Owner owner{stage, static_cast<int>(at / shards / parts) - 1, static_cast<int>(at / shards % parts) - 1,
                          static_cast<int>(at % shards) - 1};
        visit(needers.number(owner), held[at] * bytes_of_element(group));
    }
}

HeldBytes Spread::held(std::span<const std::int32_t> group_of_rank, std::size_t groups) {
    HeldBytes held{std::vector<std::uint64_t>(group_of_rank.size(), 0), {}};
    held.groups.assign(groups, std::vector<std::uint64_t>(static_cast<std::size_t>(from_.layout().pp) + 1, 0));
    for (const RoleGroup& group : groups_) {
        for (const Alike& alike : alike_) {
            std::map<int, std::vector<const StagePair*>> stages;  // by the new one
            for (const StagePair& pair : alike.stages) stages[pair.to].push_back(&pair);
            for (const auto& [stage, pairs] : stages) add_held(alike, group, stage, pairs, group_of_rank, held);
        }
    }
    return held;
}

void Spread::add_held(const Alike& alike, const RoleGroup& group, int stage, std::span<const StagePair* const> pairs,
                      std::span<const std::int32_t> group_of_rank, HeldBytes& held) {
    std::uint64_t layers = 0;
    for (const StagePair* pair : pairs) layers += pair->count();
    std::vector<std::uint64_t> of_layer(held.groups.size(), 0);  // what groups hold of one layer
    std::vector<std::size_t> counted(held.groups.size(), 0);     // the set that was counted last
    std::size_t sets = 0;
    for_each_held(alike, group, stage, [&](std::uint32_t set, std::uint64_t bytes) {
        ++sets;
        for (std::int32_t rank : result_.needers[set]) {
            held.ranks[rank] += bytes * layers;
            const std::int32_t of = group_of_rank[rank];
            if (of >= 0 && std::exchange(counted[of], sets) != sets) of_layer[of] += bytes;
        }
    });
    for (std::size_t of = 0; of < of_layer.size(); ++of) {
        if (of_layer[of] == 0) continue;
        for (const StagePair* pair : pairs) {
            const int from = pair->from == Owner::both_ends ? from_.layout().pp : pair->from;
            held.groups[of][static_cast<std::size_t>(from)] += of_layer[of] * pair->count();
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

Parcels spread_groups(const ModelState& model, const Layout& from, const Layout& to, const RankGroups& groups) {
    return Spread{model, from, to}.take_groups(groups);
}

HeldBytes held_bytes(const ModelState& model, const Layout& layout, const Layout& other,
                     std::span<const std::int32_t> group_of_rank, std::size_t groups) {
    return Spread{model, other, layout}.held(group_of_rank, groups);
}

}  // namespace tpx
