// SPDX-License-Identifier: Apache-2.0
// Layouts are compared by whole hosts; plans of ranks must give the same numbers.

#include "lib/change/layout_costs.hpp"

#include "lib/change/held_bytes.hpp"
#include "lib/change/model_parcels.hpp"
#include "lib/change/rank_locations.hpp"
#include "lib/change/relocation.hpp"
#include "lib/core/error.hpp"
#include "tests/unit/change/random_models.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

using namespace tpx;
using namespace tpx::testing::models;

namespace {

/// Hosts of different sizes, some lost or spare, with room for the ranks of both layouts.
std::vector<Host> random_hosts(RandomSource& random, int old_ranks, int new_ranks) {
    std::vector<Host> hosts;
    int places = 0;
    int free = 0;
    while (places < old_ranks || free < new_ranks) {
        Host host{.name = fmt::format("h{}", hosts.size()), .gpus = random.between(1, 4)};
        host.lost = random.once_in(6);
        host.spare = !host.lost && random.once_in(6);
        if (random.once_in(4)) host.nic = random.between(1, 4) * 1e9;
        if (random.once_in(4)) host.lost_devices = {random.between(0, host.gpus - 1)};
        places += host.gpus;
        free += free_devices(host);
        hosts.push_back(host);
    }
    return hosts;
}

std::vector<RankLocation> random_seats(RandomSource& random, const std::vector<Host>& hosts, int ranks) {
    std::vector<RankLocation> rank_locations;
    std::int32_t device = 0;
    for (std::int32_t h = 0; h < std::ssize(hosts); ++h) {
        for (int gpu = 0; gpu < hosts[h].gpus; ++gpu) rank_locations.push_back({h, device++});
    }
    if (random.once_in(2)) {
        for (std::size_t i = rank_locations.size(); i > 1; --i)
            std::swap(rank_locations[i - 1], rank_locations[random.between(0, static_cast<int>(i) - 1)]);
    }
    rank_locations.resize(ranks);
    if (random.once_in(4)) rank_locations[random.between(0, ranks - 1)] = {};
    return rank_locations;
}

struct LayoutCase {
    ModelState model;
    Layout from;
    Layout to;
    std::vector<Host> hosts;
    std::vector<RankLocation> rank_locations;
    Parcels parcels;  // between single ranks
};

/// Nothing if the model or a layout is impossible.
std::optional<LayoutCase> random_case(RandomSource& random) {
    LayoutCase made{.model = random_model(random)};
    made.from = random_layout(random, made.model.layers);
    made.to = random_layout(random, made.model.layers);
    try {
        made.parcels = model_parcels(made.model, made.from, made.to);
    } catch (const Error&) {
        return std::nullopt;
    }
    made.hosts = random_hosts(random, made.from.ranks(), made.to.ranks());
    made.rank_locations = random_seats(random, made.hosts, made.from.ranks());
    return made;
}

using Numbers = std::vector<std::int32_t>;
using ByteCounts = std::vector<std::uint64_t>;

/// The bytes that each group of ranks of `layout` holds of the layers of each stage of `other`, counted from each cell.
std::vector<ByteCounts> counted(const ModelState& model, const Layout& layout, const Layout& other,
                                const Numbers& group_of, std::size_t groups) {
    std::vector<ByteCounts> held(groups, ByteCounts(other.pp + 1, 0));
    const std::vector<int> stages = stages_of_layers(other, model.layers);
    const Parcels parcels = model_parcels(model, other, layout);
    for_each_cell(model, other, layout, [&](const Cell& cell) {
        const TensorClass& kind = model.classes[cell.tensor_class];
        int stage = kind.last ? other.pp - 1 : 0;
        if (kind.first && kind.last && other.pp > 1) stage = other.pp;
        if (!cell.layers.empty()) stage = cell.layers[0] < std::ssize(stages) ? stages[cell.layers[0]] : other.pp - 1;
        std::vector<bool> has(groups, false);
        for (std::int32_t rank : parcels.needers[parcels.parcels[cell.parcel].needers]) {
            if (group_of[rank] >= 0) has[group_of[rank]] = true;
        }
        for (std::size_t group = 0; group < groups; ++group) held[group][stage] += has[group] ? cell.bytes : 0;
    });
    return held;
}

Numbers blocks_of_ranks(std::span<const Block> blocks) {
    Numbers block_of;
    for (std::size_t b = 0; b < blocks.size(); ++b) block_of.resize(blocks[b].end, static_cast<std::int32_t>(b));
    return block_of;
}

/// LayoutCosts::Bounds::least_crossing, counted from all cells: for each block, the bytes that it needs minus the most
/// that any host could already hold, by stage.
std::uint64_t least_by_stages(const LayoutCase& made, std::span<const Block> blocks) {
    const Numbers on = old_rank_hosts(made.hosts, made.rank_locations, made.from.ranks());
    const std::vector<ByteCounts> held = counted(made.model, made.from, made.from, on, made.hosts.size());
    std::uint64_t sum = 0;
    for (const ByteCounts& needed : counted(made.model, made.to, made.from, blocks_of_ranks(blocks), blocks.size())) {
        std::uint64_t most = 0;
        for (const ByteCounts& host : held) {
            std::uint64_t kept = 0;
            for (std::size_t stage = 0; stage < host.size(); ++stage) kept += std::min(host[stage], needed[stage]);
            most = std::max(most, kept);
        }
        sum += std::accumulate(needed.begin(), needed.end(), std::uint64_t{0}) - most;
    }
    return sum;
}

/// LayoutCosts::least_crossing, counted from parcels of ranks: for each block, the bytes that it needs minus the most
/// that any host holds of them.
std::uint64_t least_by_blocks(const LayoutCase& made, std::span<const Block> blocks) {
    const Numbers on = old_rank_hosts(made.hosts, made.rank_locations, made.from.ranks());
    std::uint64_t sum = 0;
    for (const Block& block : blocks) {
        std::uint64_t needed = 0;
        ByteCounts there(made.hosts.size(), 0);
        for (const Parcel& parcel : made.parcels.parcels) {
            const auto needers = made.parcels.needers[parcel.needers];
            if (std::ranges::none_of(needers, [&](auto rank) { return block.begin <= rank && rank < block.end; }))
                continue;
            needed += parcel.bytes;
            std::set<std::int32_t> holders;
            for (std::int32_t rank : made.parcels.holders[parcel.holders]) holders.insert(on[rank]);
            for (std::int32_t host : holders) {
                if (host >= 0) there[host] += parcel.bytes;
            }
        }
        sum += needed - std::ranges::max(there);
    }
    return sum;
}

}  // namespace

TEST_CASE("a comparison by whole hosts agrees with plans of ranks") {
    RandomSource random{20261123};
    int compared = 0;
    int tight = 0;  // the bound equals the cost of the best placement
    for (int i = 0; i < 4000; ++i) {
        const std::optional<LayoutCase> made = random_case(random);
        if (!made) continue;
        CAPTURE(i);
        CAPTURE(to_string(made->from));
        CAPTURE(to_string(made->to));
        const LayoutCosts costs{made->model, made->from, made->hosts, made->rank_locations};
        const std::vector<Block> blocks = cut_blocks(made->hosts, made->to.ranks(), tp_span(made->to));
        const LayoutCosts::Bounds bounds = costs.bounds(made->to);
        REQUIRE(bounds.most_held == std::ranges::max(held_bytes(made->model, made->to)));
        REQUIRE(bounds.least_crossing == least_by_stages(*made, blocks));
        const Parcels amounts = costs.amounts(made->to);
        const std::uint64_t least = costs.least_crossing(amounts);
        REQUIRE(least == least_by_blocks(*made, blocks));
        REQUIRE(bounds.least_crossing <= least);
        for (bool pinned : {false, true}) {
            const std::uint64_t crossing =
                place(made->parcels, made->hosts, made->rank_locations, pinned, tp_span(made->to)).crossing;
            REQUIRE(costs.crossing(made->to, amounts, pinned) == crossing);
            REQUIRE(least <= crossing);
            tight += !pinned && least == crossing && crossing > 0;
        }
        ++compared;
    }
    CHECK(compared > 500);
    CHECK(tight > 100);
}

TEST_CASE("bytes that groups of ranks hold are counted once, by the stages of the other layout") {
    RandomSource random{7};
    int compared = 0;
    for (int i = 0; i < 1000; ++i) {
        const std::optional<LayoutCase> made = random_case(random);
        if (!made) continue;
        const int groups = random.between(1, 4);
        std::vector<std::int32_t> group_of;
        for (int rank = 0; rank < made->to.ranks(); ++rank) group_of.push_back(random.between(-1, groups - 1));
        const HeldBytes held = held_bytes(made->model, made->to, made->from, group_of, groups);
        CAPTURE(i);
        REQUIRE(held.ranks == held_bytes(made->model, made->to));
        REQUIRE(held.groups == counted(made->model, made->to, made->from, group_of, groups));
        ++compared;
    }
    CHECK(compared > 100);
}

TEST_CASE("hosts have the same loads without a schedule") {
    RandomSource random{5};
    for (int i = 0; i < 1000; ++i) {
        const std::optional<LayoutCase> made = random_case(random);
        if (!made) continue;
        CAPTURE(i);
        const Placement placement = place(made->parcels, made->hosts, made->rank_locations, false);
        for (StateMedium state : {StateMedium::memory, StateMedium::stores}) {
            const Relocation in_rounds =
                relocate(made->parcels, made->hosts, made->rank_locations, placement, state, true);
            const Relocation without =
                relocate_without_rounds(made->parcels, made->hosts, made->rank_locations, placement, state, true);
            REQUIRE(without.total == in_rounds.total);
            REQUIRE(without.roles == in_rounds.roles);
            for (std::size_t h = 0; h < made->hosts.size(); ++h) {
                const Load& a = without.hosts[h];
                const Load& b = in_rounds.hosts[h];
                REQUIRE(std::tuple{a.disk_read, a.disk_write, a.nic_in, a.nic_out, a.memory} ==
                        std::tuple{b.disk_read, b.disk_write, b.nic_in, b.nic_out, b.memory});
            }
        }
    }
}
