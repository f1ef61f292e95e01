// SPDX-License-Identifier: Apache-2.0
#include "lib/change/held_bytes.hpp"

#include "lib/change/layout_pair.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

// Ranks that differ only in their stage hold equal parts of different layers. So it is enough to look at the ranks of
// one stage. A place is the position of a rank within its stage.

namespace tpx {
namespace {

using Places = std::vector<std::int32_t>;

/// The ranks of a layout by stage and place.
struct Stages {
    explicit Stages(const Layout& layout) : axis{dense_grid(layout).stage}, places{layout.ranks() / axis.size} {}

    int stage(std::int32_t rank) const { return axis.of(rank); }
    std::int32_t place(std::int32_t rank) const {
        return rank / (axis.step * axis.size) * axis.step + rank % axis.step;
    }
    /// The rank at `place` on the first stage.
    std::int32_t first_rank(std::int32_t place) const {
        return place / axis.step * (axis.step * axis.size) + place % axis.step;
    }

    Grid::Axis axis;
    int places;  ///< per stage
};

/// The coordinates of each place on a grid.
using Coordinates = std::vector<Owner>;

Coordinates coordinates_of(const Stages& stages, const Grid& grid, Sharing sharing) {
    Coordinates result;
    for (std::int32_t place = 0; place < stages.places; ++place) {
        const std::int32_t rank = stages.first_rank(place);
        result.push_back({0, grid.block.of(rank), grid.part.of(rank), grid.shard(rank, sharing)});
    }
    return result;
}

/// Bytes of one layer of some classes in some roles, by the coordinates of their owners, each of which may be
/// Owner::any.
class Table {
public:
    Table(const Grid& grid, Sharing sharing, const Coordinates& coordinates)
        : parts_{static_cast<std::size_t>(grid.part.size) + 1},
          shards_{static_cast<std::size_t>(grid.shards(sharing)) + 1},
          coordinates_{coordinates},
          bytes_((static_cast<std::size_t>(grid.block.size) + 1) * parts_ * shards_, 0),
          counted_(bytes_.size(), 0) {}

    /// Adds `bytes` for each element of the boxes that are products of the cuts of `axes`.
    void add(std::span<const Cuts> axes, std::uint64_t bytes, const Owner& owner = {}) {
        if (axes.empty()) {
            bytes_[index(owner)] += bytes;
            kinds_[kind(owner)] = true;
            return;
        }
        for (const AxisCut& cut : axes.front()) {
            Owner inner = owner;
            inner.restrict_to(cut.owner);
            add(axes.subspan(1), bytes * static_cast<std::uint64_t>(cut.interval.size()), inner);
        }
    }

    /// Calls `visit` with the index of each owner of bytes that includes `place`.
    template <class Visit>
    void for_each_owner(std::int32_t place, const Visit& visit) const {
        const Owner& all = coordinates_[static_cast<std::size_t>(place)];
        for (unsigned kind = 0; kind < kinds_.size(); ++kind) {
            if (!kinds_[kind]) continue;
            const auto at = [&](unsigned bit, int coordinate) { return (kind & bit) != 0 ? coordinate : Owner::any; };
            visit(index({0, at(4, all.block), at(2, all.part), at(1, all.shard)}));
        }
    }

    /// Adds to each of `sums` the bytes that its place holds.
    void add_to(std::vector<std::uint64_t>& sums) const {
        for (std::int32_t place = 0; place < std::ssize(sums); ++place)
            for_each_owner(place, [&](std::size_t owner) { sums[static_cast<std::size_t>(place)] += bytes_[owner]; });
    }

    /// The bytes that `places` hold, each counted once. `number` must differ between calls and must not be 0.
    std::uint64_t sum(std::span<const std::int32_t> places, std::uint32_t number) {
        std::uint64_t sum = 0;
        for (std::int32_t place : places) {
            for_each_owner(place, [&](std::size_t owner) {
                if (std::exchange(counted_[owner], number) != number) sum += bytes_[owner];
            });
        }
        return sum;
    }

private:
    static unsigned kind(const Owner& owner) {
        return (owner.block >= 0 ? 4u : 0u) + (owner.part >= 0 ? 2u : 0u) + (owner.shard >= 0 ? 1u : 0u);
    }
    std::size_t index(const Owner& owner) const {
        const auto at = [](int coordinate) { return static_cast<std::size_t>(coordinate + 1); };
        return (at(owner.block) * parts_ + at(owner.part)) * shards_ + at(owner.shard);
    }

    std::size_t parts_;
    std::size_t shards_;
    const Coordinates& coordinates_;
    std::vector<std::uint64_t> bytes_;
    std::vector<std::uint32_t> counted_;  // the call of sum() that counted it last
    std::array<bool, 8> kinds_{};         // which coordinates owners of bytes have
};

/// The places of a group on one stage.
struct StagePlaces {
    std::size_t group = 0;
    int stage = 0;             // or Owner::both_ends
    std::uint32_t places = 0;  // the number of a set
};

/// Adds up what the ranks of the new layout of `pair` hold.
class Holding {
public:
    Holding(const LayoutPair& pair, std::span<const std::int32_t> group_of_rank, std::size_t groups)
        : pair_{pair}, stages_{pair.to().layout()} {
        held_.ranks.assign(group_of_rank.size(), 0);
        for (std::int32_t rank = 0; rank < std::ssize(group_of_rank); ++rank)
            seats_.push_back({stages_.stage(rank), stages_.place(rank)});
        held_.groups.assign(groups, std::vector<std::uint64_t>(static_cast<std::size_t>(old_stages()) + 1, 0));
        divide(group_of_rank);
    }

    HeldBytes run() {
        for (const ClassGroup& classes : pair_.class_groups()) add(classes);
        return std::move(held_);
    }

private:
    int old_stages() const { return pair_.from().layout().pp; }
    int last_stage() const { return stages_.axis.size - 1; }
    void divide(std::span<const std::int32_t> group_of_rank);
    void add_part(std::size_t group, int stage, Places places);
    void add(const ClassGroup& classes);
    const Coordinates& coordinates(bool of_experts, Sharing sharing);
    std::vector<Table> tables(const ClassGroup& classes);
    void add_ranks(const ClassGroup& classes, std::span<const Table> tables);

    const LayoutPair& pair_;
    Stages stages_;
    struct StagePlace {
        int stage;
        std::int32_t place;
    };
    std::vector<StagePlace> seats_;  // of each rank
    std::map<std::pair<bool, Sharing>, Coordinates> coordinates_;
    RankSets places_;
    std::vector<StagePlaces> parts_;
    HeldBytes held_;
};

// State on both ends counts once in a group with places on both ends.
void Holding::divide(std::span<const std::int32_t> group_of_rank) {
    std::vector<std::map<int, Places>> groups(held_.groups.size());
    for (std::int32_t rank = 0; rank < std::ssize(group_of_rank); ++rank) {
        const std::int32_t group = group_of_rank[static_cast<std::size_t>(rank)];
        if (group < 0) continue;
        const auto [stage, place] = seats_[static_cast<std::size_t>(rank)];
        groups[static_cast<std::size_t>(group)][stage].push_back(place);
    }
    for (std::size_t group = 0; group < groups.size(); ++group) {
        Places ends;
        for (auto& [stage, places] : groups[group]) {
            if (stage == 0 || stage == last_stage()) ends.insert(ends.end(), places.begin(), places.end());
            add_part(group, stage, std::move(places));
        }
        if (last_stage() > 0 && !ends.empty()) add_part(group, Owner::both_ends, std::move(ends));
    }
}

void Holding::add_part(std::size_t group, int stage, Places places) {
    std::ranges::sort(places);
    places.erase(std::unique(places.begin(), places.end()), places.end());
    parts_.push_back({group, stage, places_.add(places)});
}

// Computed once for all tables of a grid: with thousands of places, the divisions would take most of the time.
const Coordinates& Holding::coordinates(bool of_experts, Sharing sharing) {
    const auto [found, is_new] = coordinates_.try_emplace({of_experts, sharing});
    if (is_new) found->second = coordinates_of(stages_, grid_of(pair_.to().layout(), of_experts), sharing);
    return found->second;
}

std::vector<Table> Holding::tables(const ClassGroup& classes) {
    std::vector<Table> tables;
    for (const RoleGroup& roles : pair_.role_groups()) {
        if (!LayoutPair::has(classes, roles)) continue;
        Table& table = tables.emplace_back(grid_of(pair_.to().layout(), classes.experts), roles.to,
                                           coordinates(classes.experts, roles.to));
        for (std::uint32_t number : classes.classes) {
            const std::vector<Cuts> cuts = pair_.to().cuts(form_of(pair_.model().classes[number]), roles.to);
            table.add(cuts, pair_.bytes_of_element(roles));
        }
    }
    return tables;
}

void Holding::add_ranks(const ClassGroup& classes, std::span<const Table> tables) {
    std::vector<std::uint64_t> of_place(static_cast<std::size_t>(stages_.places), 0);
    for (const Table& table : tables) table.add_to(of_place);
    std::vector<std::uint64_t> layers(static_cast<std::size_t>(stages_.axis.size), 0);
    for (const StagePair& pair : classes.stages) {
        if (pair.to != Owner::both_ends) layers[static_cast<std::size_t>(pair.to)] += pair.count();
        if (pair.to == Owner::both_ends) layers.front() += pair.count();
        if (pair.to == Owner::both_ends && last_stage() > 0) layers.back() += pair.count();
    }
    for (std::size_t rank = 0; rank < held_.ranks.size(); ++rank)
        held_.ranks[rank] += of_place[static_cast<std::size_t>(seats_[rank].place)] *
                             layers[static_cast<std::size_t>(seats_[rank].stage)];
}

void Holding::add(const ClassGroup& classes) {
    std::vector<Table> tables = this->tables(classes);
    add_ranks(classes, tables);
    std::map<int, std::vector<const StagePair*>> pairs;  // by the new stage
    for (const StagePair& pair : classes.stages) pairs[pair.to].push_back(&pair);
    std::vector<std::optional<std::uint64_t>> of_set(places_.size());  // bytes of one layer that its places hold
    for (const StagePlaces& part : parts_) {
        const auto found = pairs.find(part.stage);
        if (found == pairs.end()) continue;
        std::optional<std::uint64_t>& bytes = of_set[part.places];
        if (!bytes) {
            bytes = 0;
            for (Table& table : tables) *bytes += table.sum(places_[part.places], part.places + 1);
        }
        for (const StagePair* pair : found->second) {
            const int from = pair->from == Owner::both_ends ? old_stages() : pair->from;
            held_.groups[part.group][static_cast<std::size_t>(from)] += *bytes * pair->count();
        }
    }
}

}  // namespace

HeldBytes held_bytes(const ModelState& model, const Layout& layout, const Layout& other,
                     std::span<const std::int32_t> group_of_rank, std::size_t groups) {
    const LayoutPair pair{model, other, layout};
    return Holding{pair, group_of_rank, groups}.run();
}

}  // namespace tpx
