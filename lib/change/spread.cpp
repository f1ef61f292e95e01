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

/// What of one layer and one expert the same owners have.
struct Profile {
    Owners at;
    std::uint32_t tensor = 0;
    std::uint64_t elements = 0;
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
        : model_{(check_model(model), model)}, from_{make_end(model, from)}, to_{make_end(model, to)} {
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
    std::vector<Profile> profiles(const Alike& alike, const RoleGroup& group) const;
    template <class Visit>
    void for_each_amount(const Alike& alike, const RoleGroup& group, std::span<const Profile> profiles, Visit visit);
    std::uint64_t bytes_of_element(const RoleGroup& group) const;
    std::vector<std::uint64_t> elements_held(const Alike& alike, const RoleGroup& group) const;
    template <class Visit>
    void for_each_held(const Alike& alike, const RoleGroup& group, int stage, Visit visit);
    void add_held(const Alike& alike, const RoleGroup& group, int stage, std::span<const StagePair* const> pairs,
                  std::span<const std::int32_t> group_of_rank, HeldBytes& held);
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

/// The boxes of all classes of `alike` by who has them, of one layer and one expert.
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
void Spread::for_each_amount(const Alike& alike, const RoleGroup& group, std::span<const Profile> profiles,
                             Visit visit) {
    Pair& digits = pair(group, alike.experts);
    for (const StagePair& stages : alike.stages) {
        for (const SharedCut& block : alike.blocks) {
            const std::uint64_t tensors = stages.count() * static_cast<std::uint64_t>(block.interval.size());
            for (const Profile& profile : profiles) {
                const auto [holders, needers] = digits.sets(stages, block, profile.at);
                visit(Amount{holders, needers, profile.at.recut, profile.tensor, profile.elements * tensors});
            }
        }
    }
}

void Spread::add_parcels(const RoleGroup& group) {
    std::vector<Amount> amounts;
    for (const Alike& alike : alike_)
        for_each_amount(alike, group, profiles(alike, group), [&](const Amount& amount) { amounts.push_back(amount); });
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
    std::vector<Amount> amounts;
    for (const RoleGroup& group : groups_) {
        const std::uint64_t bytes = bytes_of_element(group);
        for (const Alike& alike : alike_) {
            for_each_amount(alike, group, profiles(alike, group), [&](Amount amount) {
                amount = {holders.number(amount.holders), needers.number(amount.needers), false, amount.tensor,
                          amount.elements * bytes};
                if (!amounts.empty() && amounts.back().key() == amount.key())
                    amounts.back().elements += amount.elements;
                else
                    amounts.push_back(amount);
            });
        }
    }
    add_up(amounts, [](const Amount& amount) { return amount.key(); });
    std::uint32_t element = 8;
    for (const StateRole& role : model_.roles)
        element = std::min(element, static_cast<std::uint32_t>(itemsize(role.dtype)));
    for (const Amount& each : amounts)
        result_.parcels.push_back({each.holders, each.needers, 0, each.tensor, false, each.elements, element});
    result_.roles = {"all"};
    result_.holders = holders.take();
    result_.needers = needers.take();
    return std::move(result_);
}

/// The elements of one layer and one expert that the new layout gives to a tensor-parallel part and a shard, of all
/// classes of `alike`: at (part + 1) * (shards + 1) + shard + 1, where -1 stands for all of them.
std::vector<std::uint64_t> Spread::elements_held(const Alike& alike, const RoleGroup& group) const {
    const Grid& grid = to_.grid(alike.experts);
    const int count = shards(grid, group.to);
    std::vector<std::uint64_t> held(std::size_t(grid.parts + 1) * (count + 1), 0);
    std::vector<AxisCut> boxes;  // by their owners; the interval begins at 0 and ends at their volume
    std::vector<AxisCut> more;
    for (std::uint32_t number : alike.classes) {
        boxes.assign(1, {{0, 1}, -1, -1});
        for (const Cuts& cuts : cuts_of(model_.classes[number], grid.parts, count, to_.layout.fsdp_dim)) {
            more.clear();
            for (const AxisCut& box : boxes) {
                for (const AxisCut& cut : cuts)
                    more.push_back({{0, box.interval.end * cut.interval.size()},
                                    std::max(box.part, cut.part),
                                    std::max(box.shard, cut.shard)});
            }
            boxes.swap(more);
        }
        for (const AxisCut& box : boxes)
            held[std::size_t(box.part + 1) * (count + 1) + box.shard + 1] +=
                static_cast<std::uint64_t>(box.interval.end);
    }
    return held;
}

/// Calls `visit` for each set of new ranks on `stage` and the bytes that it holds of one layer.
template <class Visit>
void Spread::for_each_held(const Alike& alike, const RoleGroup& group, int stage, Visit visit) {
    const std::vector<std::uint64_t> elements = elements_held(alike, group);
    const auto columns = static_cast<std::size_t>(shards(to_.grid(alike.experts), group.to)) + 1;
    const int blocks = alike.experts ? to_.layout.ep : 1;
    const auto experts = static_cast<std::uint64_t>(alike.blocks.back().interval.end) / blocks;
    Digits& digits = pair(group, alike.experts).to;
    for (int block = 0; block < blocks; ++block) {
        for (std::size_t at = 0; at < elements.size(); ++at) {
            if (elements[at] == 0) continue;
            const std::uint32_t set =
                digits.set(stage, block, static_cast<int>(at / columns) - 1, static_cast<int>(at % columns) - 1);
            visit(set, elements[at] * experts * bytes_of_element(group));
        }
    }
}

HeldBytes Spread::held(std::span<const std::int32_t> group_of_rank, std::size_t groups) {
    HeldBytes held{std::vector<std::uint64_t>(group_of_rank.size(), 0), {}};
    held.groups.assign(groups, std::vector<std::uint64_t>(static_cast<std::size_t>(from_.layout.pp) + 1, 0));
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
        for (const StagePair* pair : pairs) held.groups[of][pair->from] += of_layer[of] * pair->count();
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
