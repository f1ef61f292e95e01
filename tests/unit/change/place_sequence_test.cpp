// SPDX-License-Identifier: Apache-2.0
#include "lib/change/place_sequence.hpp"

#include "lib/change/model_parcels.hpp"
#include "lib/change/relocation.hpp"
#include "lib/core/error.hpp"
#include "tests/unit/change/random_models.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

using namespace tpx;
using namespace tpx::testing::models;

namespace {

std::vector<RankLocation> rank_locations_in_order(const std::vector<Host>& hosts, int ranks) {
    std::vector<RankLocation> rank_locations;
    std::int32_t device = 0;
    for (std::uint32_t host : host_of_rank(hosts, ranks))
        rank_locations.push_back({static_cast<std::int32_t>(host), device++});
    return rank_locations;
}

/// Bytes that hosts need and do not hold, counted by relocate().
std::uint64_t bytes_between(const ModelState& model, const Layout& from, const Layout& to,
                            const std::vector<Host>& hosts, const std::vector<RankLocation>& rank_locations,
                            const Placement& placement) {
    return relocate_without_rounds(model_parcels(model, from, to), hosts, rank_locations, placement,
                                   StateMedium::memory, false)
        .bound;
}

struct SequenceCase {
    ModelState model;
    std::vector<Layout> layouts;
    std::vector<Host> hosts;
    std::vector<RankLocation> rank_locations;
};

/// A random model and `count` layouts that it allows, of at most `ranks` ranks, on hosts with enough devices.
std::optional<SequenceCase> random_case(RandomSource& random, int count, int ranks, bool alike) {
    SequenceCase made{.model = random_model(random), .layouts = {}, .hosts = {}, .rank_locations = {}};
    try {
        for (int i = 0; i < count; ++i) {
            const Layout layout = random_layout(random, made.model.layers);
            model_parcels(made.model, layout, layout);
            if (layout.ranks() > ranks) return std::nullopt;
            made.layouts.push_back(layout);
        }
    } catch (const Error&) {
        return std::nullopt;
    }
    const int most = std::ranges::max_element(made.layouts, {}, &Layout::ranks)->ranks();
    const int gpus = random.between(1, 4);
    for (int devices = 0; devices < most;) {
        Host host{.name = fmt::format("n{}", made.hosts.size()), .gpus = alike ? gpus : random.between(1, 4)};
        devices += host.gpus;
        made.hosts.push_back(host);
    }
    if (made.hosts.size() > 4) return std::nullopt;
    // Like any layout, the first one is placed in blocks that keep TP groups whole.
    const Layout& first = made.layouts.front();
    made.rank_locations =
        rank_locations_of(place(model_parcels(made.model, first, first), made.hosts,
                                rank_locations_in_order(made.hosts, first.ranks()), true, tp_span(first)));
    return made;
}

SequencePlacement placed(const SequenceCase& it) {
    return place_sequence(it.model, it.layouts, it.hosts, it.rank_locations);
}

/// The cost of the steps of `placements`, each counted again.
std::uint64_t counted(const SequenceCase& it, const std::vector<Placement>& placements) {
    std::vector<RankLocation> rank_locations = it.rank_locations;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < placements.size(); ++i) {
        bytes += bytes_between(it.model, it.layouts[i], it.layouts[i + 1], it.hosts, rank_locations, placements[i]);
        rank_locations = rank_locations_of(placements[i]);
    }
    return bytes;
}

/// Every placement of the blocks of the ranks of `layout` on hosts.
std::vector<Placement> all_placements(const std::vector<Host>& hosts, const Layout& layout) {
    const std::vector<std::int32_t> firsts = first_devices(hosts);
    std::vector<Placement> all;
    Placement made{.blocks = cut_blocks(hosts, layout.ranks(), tp_span(layout)), .host_prices = {}};
    std::vector<bool> used(hosts.size());
    const std::function<void(std::size_t)> go = [&](std::size_t b) {
        if (b == made.blocks.size()) {
            made.devices.clear();
            for (const Block& block : made.blocks)
                for (std::int32_t rank = block.begin; rank < block.end; ++rank)
                    made.devices.push_back(firsts[block.host] + rank - block.begin);
            all.push_back(made);
            return;
        }
        for (std::uint32_t host = 0; host < hosts.size(); ++host) {
            if (used[host] || hosts[host].gpus < made.blocks[b].end - made.blocks[b].begin) continue;
            used[host] = true;
            made.blocks[b].host = host;
            go(b + 1);
            used[host] = false;
        }
    };
    go(0);
    return all;
}

/// The least cost of any two placements of the last two of three layouts.
std::uint64_t brute_force(const SequenceCase& it) {
    std::uint64_t least = ~std::uint64_t{0};
    for (const Placement& first : all_placements(it.hosts, it.layouts[1])) {
        for (const Placement& second : all_placements(it.hosts, it.layouts[2]))
            least = std::min(least, counted(it, {first, second}));
    }
    return least;
}

}  // namespace

TEST_CASE("a sequence whose middle layout equals the first or last one costs as much as the direct change") {
    RandomSource random{1};
    int done = 0;
    for (int round = 0; round < 1500 && done < 150; ++round) {
        CAPTURE(round);
        const std::optional<SequenceCase> it = random_case(random, 2, 16, random.once_in(2));
        if (!it) continue;
        const Layout &from = it->layouts[0], &to = it->layouts[1];
        const std::uint64_t direct = placed(*it).crossing;
        CHECK(placed({it->model, {from, from, to}, it->hosts, it->rank_locations}).crossing == direct);
        CHECK(placed({it->model, {from, to, to}, it->hosts, it->rank_locations}).crossing == direct);
        ++done;
    }
    CHECK(done == 150);
}

TEST_CASE("a sequence sends the sum of its steps, and never less than the direct change") {
    RandomSource random{2};
    int done = 0, dearer = 0;
    for (int round = 0; round < 4000 && done < 200; ++round) {
        CAPTURE(round);
        const std::optional<SequenceCase> it = random_case(random, random.between(3, 4), 16, random.once_in(2));
        if (!it) continue;
        const SequencePlacement found = placed(*it);
        CHECK(found.crossing == counted(*it, found.steps));
        CHECK(found.crossing <= found.one_by_one);
        const std::uint64_t direct =
            placed({it->model, {it->layouts.front(), it->layouts.back()}, it->hosts, it->rank_locations}).crossing;
        CHECK(found.crossing >= direct);
        dearer += found.crossing > direct;
        ++done;
    }
    CHECK(done == 200);
    CHECK(dearer > 20);
}

TEST_CASE("a sequence that is marked as the least is, and others are close to it") {
    RandomSource random{3};
    int alike = 0, apart = 0, missed = 0, better = 0;
    for (int round = 0; round < 4000 && alike + apart < 120; ++round) {
        CAPTURE(round);
        const std::optional<SequenceCase> it = random_case(random, 3, 9, random.once_in(3));
        if (!it || it->hosts.size() > 3) continue;
        const SequencePlacement found = placed(*it);
        const std::uint64_t least = brute_force(*it);
        CHECK(found.crossing >= least);
        if (found.is_least) CHECK(found.crossing == least);
        (found.is_least ? alike : apart) += 1;
        missed += found.crossing > least;
        better += found.crossing < found.one_by_one;
    }
    MESSAGE(alike << " proven, " << apart << " not proven: " << missed << " dearer than the least, " << better
                  << " cheaper than step by step");
    CHECK(alike > 20);
    CHECK(apart > 20);
    CHECK(missed * 10 <= apart);
}

TEST_CASE("on unequal hosts, joint placement costs less than step by step, and seldom more than the least") {
    RandomSource random{5};
    int done = 0, missed = 0, better = 0;
    for (int round = 0; round < 20000 && done < 600; ++round) {
        CAPTURE(round);
        const std::optional<SequenceCase> it = random_case(random, 3, 9, false);
        if (!it || it->hosts.size() > 3) continue;
        const SequencePlacement found = placed(*it);
        if (found.is_least) continue;
        missed += found.crossing > brute_force(*it);
        better += found.crossing < found.one_by_one;
        ++done;
    }
    CHECK(done == 600);
    CHECK(better == 29);
    CHECK(missed == 2);  // not proven, but the search finds the least in nearly all of these cases
}

TEST_CASE("a placement that costs its own step more is marked, and the others have the prices that prove them") {
    RandomSource random{4};
    int marked = 0, proven = 0;
    for (int round = 0; round < 6000 && marked < 5; ++round) {
        CAPTURE(round);
        const std::optional<SequenceCase> it = random_case(random, 3, 12, false);
        if (!it) continue;
        const SequencePlacement found = placed(*it);
        std::vector<RankLocation> rank_locations = it->rank_locations;
        for (std::size_t i = 0; i < found.steps.size(); ++i) {
            const Placement& step = found.steps[i];
            const Placement alone = place(model_parcels(it->model, it->layouts[i], it->layouts[i + 1]), it->hosts,
                                          rank_locations, false, tp_span(it->layouts[i + 1]));
            CHECK(step.is_proven() == (step.crossing == alone.crossing));
            std::int64_t prices = 0;
            for (const Block& block : step.blocks) prices += block.price + step.host_prices[block.host];
            CHECK(prices == (step.is_proven() ? static_cast<std::int64_t>(step.crossing) : 0));
            (step.is_proven() ? proven : marked) += 1;
            rank_locations = rank_locations_of(step);
        }
    }
    CHECK(marked > 0);
    CHECK(proven > 100);
}
