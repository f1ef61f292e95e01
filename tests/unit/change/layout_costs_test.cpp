// SPDX-License-Identifier: Apache-2.0
// Layouts are compared by whole hosts; plans of ranks must say the same.

#include "lib/change/layout_costs.hpp"

#include "lib/change/relocation.hpp"
#include "lib/change/spread.hpp"
#include "lib/core/error.hpp"
#include "tests/unit/change/random_models.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <optional>

using namespace tpx;
using namespace tpx::testing::models;

namespace {

/// Hosts of different sizes, some lost or spare, with room for the ranks of both layouts.
std::vector<Host> random_hosts(Random& random, int old_ranks, int new_ranks) {
    std::vector<Host> hosts;
    int places = 0;
    int free = 0;
    while (places < old_ranks || free < new_ranks) {
        Host host{.name = fmt::format("h{}", hosts.size()), .gpus = random.between(1, 4)};
        host.lost = random.once_in(6);
        host.spare = !host.lost && random.once_in(6);
        if (random.once_in(4)) host.nic = random.between(1, 4) * 1e9;
        places += host.gpus;
        free += host.lost ? 0 : host.gpus;
        hosts.push_back(host);
    }
    return hosts;
}

std::vector<Seat> random_seats(Random& random, const std::vector<Host>& hosts, int ranks) {
    std::vector<Seat> seats;
    std::int32_t device = 0;
    for (std::int32_t h = 0; h < std::ssize(hosts); ++h) {
        for (int gpu = 0; gpu < hosts[h].gpus; ++gpu) seats.push_back({h, device++});
    }
    if (random.once_in(2)) {
        for (std::size_t i = seats.size(); i > 1; --i)
            std::swap(seats[i - 1], seats[random.between(0, static_cast<int>(i) - 1)]);
    }
    seats.resize(ranks);
    if (random.once_in(4)) seats[random.between(0, ranks - 1)] = {};
    return seats;
}

struct Case {
    ModelState model;
    Layout from;
    Layout to;
    std::vector<Host> hosts;
    std::vector<Seat> seats;
    Parcels parcels;  // between ranks
};

/// Nothing when the model or the layouts cannot be.
std::optional<Case> random_case(Random& random) {
    Case made{.model = random_model(random)};
    made.from = random_layout(random, made.model.layers);
    made.to = random_layout(random, made.model.layers);
    try {
        made.parcels = spread(made.model, made.from, made.to);
    } catch (const Error&) {
        return std::nullopt;
    }
    made.hosts = random_hosts(random, made.from.ranks(), made.to.ranks());
    made.seats = random_seats(random, made.hosts, made.from.ranks());
    return made;
}

/// What ranks of each group hold of the layers of each stage of `from`, by looking at each cell.
std::vector<std::vector<std::uint64_t>> counted(const Case& made, const std::vector<std::int32_t>& group_of,
                                                int groups) {
    std::vector<std::vector<std::uint64_t>> held(groups, std::vector<std::uint64_t>(made.from.pp + 1, 0));
    const std::vector<int> stages = stages_of_layers(made.from, made.model.layers);
    for_each_cell(made.model, made.from, made.to, [&](const Cell& cell) {
        const TensorClass& kind = made.model.classes[cell.tensor_class];
        int stage = kind.last ? made.from.pp - 1 : 0;
        if (kind.first && kind.last && made.from.pp > 1) stage = made.from.pp;
        if (!cell.layers.empty())
            stage = cell.layers[0] < std::ssize(stages) ? stages[cell.layers[0]] : made.from.pp - 1;
        std::vector<bool> has(groups, false);
        for (std::int32_t rank : made.parcels.needers[made.parcels.parcels[cell.parcel].needers])
            has[group_of[rank]] = true;
        for (int group = 0; group < groups; ++group) held[group][stage] += has[group] ? cell.bytes : 0;
    });
    return held;
}

}  // namespace

TEST_CASE("a comparison by whole hosts says what plans of ranks say") {
    Random random{20261123};
    int compared = 0;
    for (int i = 0; i < 4000; ++i) {
        const std::optional<Case> made = random_case(random);
        if (!made) continue;
        CAPTURE(i);
        CAPTURE(to_string(made->from));
        CAPTURE(to_string(made->to));
        const LayoutCosts costs{made->model, made->from, made->hosts, made->seats};
        const Parcels amounts = costs.amounts(made->to);
        for (bool pinned : {false, true}) {
            const std::uint64_t crossing = place(made->parcels, made->hosts, made->seats, pinned).crossing;
            REQUIRE(costs.crossing(amounts, pinned) == crossing);
            REQUIRE(costs.least_crossing(amounts) <= crossing);
            REQUIRE(costs.bounds(made->to).least_crossing <= costs.least_crossing(amounts));
        }
        REQUIRE(costs.bounds(made->to).most_held == std::ranges::max(held_bytes(made->model, made->to)));
        ++compared;
    }
    CHECK(compared > 500);
}

TEST_CASE("what groups of ranks hold is counted once, by the stages of the other layout") {
    Random random{7};
    int compared = 0;
    for (int i = 0; i < 1000; ++i) {
        const std::optional<Case> made = random_case(random);
        if (!made) continue;
        const int groups = random.between(1, 4);
        std::vector<std::int32_t> group_of;
        for (int rank = 0; rank < made->to.ranks(); ++rank) group_of.push_back(random.between(0, groups - 1));
        const HeldBytes held = held_bytes(made->model, made->to, made->from, group_of, groups);
        CAPTURE(i);
        REQUIRE(held.ranks == held_bytes(made->model, made->to));
        REQUIRE(held.groups == counted(*made, group_of, groups));
        ++compared;
    }
    CHECK(compared > 100);
}

TEST_CASE("without a schedule hosts have the same loads") {
    Random random{5};
    for (int i = 0; i < 1000; ++i) {
        const std::optional<Case> made = random_case(random);
        if (!made) continue;
        CAPTURE(i);
        const Placement placement = place(made->parcels, made->hosts, made->seats, false);
        for (StateIn state : {StateIn::memory, StateIn::stores}) {
            const Relocation in_rounds = relocate(made->parcels, made->hosts, made->seats, placement, state, true);
            const Relocation without =
                relocate_without_rounds(made->parcels, made->hosts, made->seats, placement, state, true);
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
