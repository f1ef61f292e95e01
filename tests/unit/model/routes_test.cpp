// SPDX-License-Identifier: Apache-2.0
#include "lib/model/routes.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace tpx;

namespace {

Routes routes(const char* plan, std::vector<int> gpus, double gpus_per_nic = 2) {
    return routes_of(parse_execution_plan(plan), {std::move(gpus), gpus_per_nic, 4});
}

// Which hosts and NICs each group of ranks touches, by listing every rank.
struct Listed {
    double data_nics = 0;
    int cut_stages = 0;
    int crossed_borders = 0;
};

struct Place {
    int host, nic;
};

std::vector<Place> places_of(const Allocation& allocation) {
    std::vector<Place> places;
    for (int host = 0; host < int(allocation.gpus.size()); ++host)
        for (int i = 0; i < allocation.gpus[host]; ++i) places.push_back({host, int(i / allocation.gpus_per_nic)});
    return places;
}

// The NICs of each ring on each host that it leaves, each NIC divided among the rings that leave through it.
double listed_nics(const ExecutionPlan& plan, const std::vector<Place>& places) {
    std::map<std::pair<int, int>, std::set<int>> rings_at;                 // host and NIC -> rings
    std::map<std::pair<int, int>, std::set<std::pair<int, int>>> nics_of;  // ring and host -> NICs
    for (int ring = 0; ring < plan.pp * plan.tp; ++ring) {
        std::vector<Place> members;
        for (int d = 0; d < plan.dp; ++d)
            members.push_back(places[(ring / plan.tp * plan.dp + d) * plan.tp + ring % plan.tp]);
        if (std::ranges::all_of(members, [&](const Place& at) { return at.host == members[0].host; })) continue;
        for (const Place& at : members) {
            rings_at[{at.host, at.nic}].insert(ring);
            nics_of[{ring, at.host}].insert({at.host, at.nic});
        }
    }
    double fewest = 0;
    for (const auto& [where, nics] : nics_of) {
        double sum = 0;
        for (const auto& nic : nics) sum += 1.0 / double(rings_at[nic].size());
        fewest = fewest > 0 ? std::min(fewest, sum) : sum;
    }
    return fewest;
}

Listed listed(const ExecutionPlan& plan, const Allocation& allocation) {
    const std::vector<Place> places = places_of(allocation);
    Listed found{listed_nics(plan, places)};
    const int stage = plan.dp * plan.tp;
    for (int p = 0; p < plan.pp; ++p) {
        bool cut = false;
        for (int d = 0; d < plan.dp; ++d) {
            std::set<int> hosts;
            for (int t = 0; t < plan.tp; ++t) hosts.insert(places[(p * plan.dp + d) * plan.tp + t].host);
            cut |= hosts.size() > 1;
        }
        found.cut_stages += cut;
        if (p + 1 < plan.pp) found.crossed_borders += places[p * stage].host != places[(p + 2) * stage - 1].host;
    }
    return found;
}

}  // namespace

TEST_CASE("a plan inside one host uses no NIC") {
    const Routes inside = routes("dp=2,tp=2,pp=2", {8});
    CHECK(inside.data_nics == 0);
    CHECK(inside.tensor_cut == 0);
    CHECK(inside.pipeline_nics == 0);
    CHECK(inside.further_hosts == 0);
    CHECK_FALSE(inside.uneven);
}

TEST_CASE("rings have the NICs of their GPUs on the emptiest host, and share them") {
    CHECK(routes("dp=8", {4, 4}).data_nics == 2);
    CHECK(routes("dp=8", {3, 5}).data_nics == 2);  // one of them serves a single GPU
    CHECK(routes("dp=8", {2, 6}).data_nics == 1);
    CHECK(routes("dp=16,tp=1", {8, 8}, 1).data_nics == 8);
    CHECK(routes("dp=4,tp=4", {8, 8}).data_nics == 1);
    CHECK(routes("dp=2,tp=4,pp=2", {8, 8}).data_nics == 0);  // each stage has a host of its own
    // The fourth host has one GPU of the second stage, whose ring shares its NIC with one of the third.
    CHECK(routes("dp=4,tp=2,pp=5", {5, 5, 5, 5, 5, 5, 5, 5}).data_nics == 0.5);
    CHECK(routes("dp=8", {4, 4}, 0.5).data_nics == 8);  // two NICs for each GPU
    CHECK(routes("dp=8", {3, 5}).uneven);
    CHECK_FALSE(routes("dp=8", {2, 6}).uneven);
    CHECK_FALSE(routes("dp=8", {3, 5}).alike);
    CHECK_FALSE(routes("dp=6", {3, 3}).alike);  // a NIC serves two GPUs, the other one
    CHECK(routes("dp=3", {1, 1, 1}).alike);
    CHECK(routes("dp=3", {1, 1, 1}).uneven);
}

TEST_CASE("a tensor group that a host boundary cuts is found, with the share of stages that have one") {
    const Routes cut = routes("dp=4,tp=2,pp=5", {5, 5, 5, 5, 5, 5, 5, 5});
    CHECK(cut.tensor_cut == doctest::Approx(4.0 / 5));  // after 5, 15, 25 and 35 ranks
    CHECK(cut.tensor_nics == 1);
    CHECK(routes("dp=2,tp=4,pp=6", {6, 6, 6, 6, 6, 6, 6, 6}).tensor_cut == doctest::Approx(4.0 / 6));
    CHECK(routes("tp=8,dp=2", {8, 8}).tensor_cut == 0);
}

TEST_CASE("all GPUs of a stage send at the same time, through the NICs that they have") {
    CHECK(routes("tp=8,pp=2", {8, 8}).pipeline_nics == 0.5);
    CHECK(routes("pp=8", {4, 4}).pipeline_nics == 1);  // one GPU sends
    CHECK(routes("pp=4", {1, 1, 1, 1}).pipeline_cut == 1);
    CHECK(routes("dp=2,pp=4", {4, 4}).pipeline_cut == doctest::Approx(1.0 / 3));  // two stages a host
}

TEST_CASE("routes agree with a list of every rank") {
    std::mt19937 random{7};
    const auto draw = [&](int most) { return std::uniform_int_distribution<int>{1, most}(random); };
    for (int round = 0; round < 2000; ++round) {
        ExecutionPlan plan;
        plan.dp = draw(6);
        plan.tp = draw(6);
        plan.pp = draw(4);
        Allocation allocation{{}, double(draw(4)), 4};
        const int alike = draw(2) == 1 ? 0 : draw(9);
        for (int left = plan.gpus(); left > 0; left -= allocation.gpus.back())
            allocation.gpus.push_back(std::min(left, alike > 0 ? alike : draw(9)));
        const Routes found = routes_of(plan, allocation);
        const Listed expected = listed(plan, allocation);
        CHECK(found.data_nics == doctest::Approx(expected.data_nics));
        CHECK(found.pipeline_cut * std::max(1, plan.pp - 1) == doctest::Approx(expected.crossed_borders));
        CHECK(found.tensor_cut == doctest::Approx(double(expected.cut_stages) / plan.pp));
    }
}

TEST_CASE("a plan must have the GPUs of the allocation") {
    CHECK_THROWS_WITH_AS(routes("dp=4", {2, 1}), "the plan dp=4 uses 4 GPUs, but 3 are allocated", Error);
    CHECK_THROWS_AS(routes("dp=1", {}), Error);
}
