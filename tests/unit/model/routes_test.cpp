// SPDX-License-Identifier: Apache-2.0
#include "lib/model/routes.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

using namespace tpx;

namespace {

Routes routes(const char* plan, std::vector<int> gpus, double gpus_per_nic = 2) {
    return routes_of(parse_execution_plan(plan), {std::move(gpus), gpus_per_nic, 4});
}

// Which hosts each group of ranks touches, by listing every rank.
struct Listed {
    bool data_leaves = false;
    int cut_stages = 0;
};

Listed listed(const ExecutionPlan& plan, const Allocation& allocation) {
    std::vector<int> host;
    for (std::size_t i = 0; i < allocation.gpus.size(); ++i) host.insert(host.end(), allocation.gpus[i], int(i));
    Listed found;
    for (int p = 0; p < plan.pp; ++p) {
        bool cut = false;
        for (int t = 0; t < plan.tp; ++t) {
            std::set<int> hosts;
            for (int d = 0; d < plan.dp; ++d) hosts.insert(host[(p * plan.dp + d) * plan.tp + t]);
            found.data_leaves |= hosts.size() > 1;
        }
        for (int d = 0; d < plan.dp; ++d) {
            std::set<int> hosts;
            for (int t = 0; t < plan.tp; ++t) hosts.insert(host[(p * plan.dp + d) * plan.tp + t]);
            cut |= hosts.size() > 1;
        }
        found.cut_stages += cut;
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

TEST_CASE("the emptiest host's NICs carry the gradients, divided among the rings of a stage") {
    CHECK(routes("dp=8", {4, 4}).data_nics == 2);
    CHECK(routes("dp=8", {3, 5}).data_nics == 2);  // one of them serves a single GPU
    CHECK(routes("dp=8", {2, 6}).data_nics == 1);
    CHECK(routes("dp=16,tp=1", {8, 8}, 1).data_nics == 8);
    CHECK(routes("dp=4,tp=4", {8, 8}).data_nics == 1);
    CHECK(routes("dp=2,tp=4,pp=2", {8, 8}).data_nics == 0);  // each stage has a host of its own
    CHECK(routes("dp=8", {3, 5}).uneven);
    CHECK_FALSE(routes("dp=8", {2, 6}).uneven);
}

TEST_CASE("a tensor group that a host boundary cuts is found, with the share of stages that have one") {
    const Routes cut = routes("dp=4,tp=2,pp=5", {5, 5, 5, 5, 5, 5, 5, 5});
    CHECK(cut.tensor_cut == doctest::Approx(4.0 / 5));  // after 5, 15, 25 and 35 ranks
    CHECK(cut.tensor_nics == 1);
    CHECK(routes("dp=2,tp=4,pp=6", {6, 6, 6, 6, 6, 6, 6, 6}).tensor_cut == doctest::Approx(4.0 / 6));
    CHECK(routes("tp=8,dp=2", {8, 8}).tensor_cut == 0);
}

TEST_CASE("routes agree with a list of every rank") {
    std::mt19937 random{7};
    const auto draw = [&](int most) { return std::uniform_int_distribution<int>{1, most}(random); };
    for (int round = 0; round < 2000; ++round) {
        ExecutionPlan plan;
        plan.dp = draw(6);
        plan.tp = draw(6);
        plan.pp = draw(4);
        Allocation allocation{{}, 1, 4};
        for (int left = plan.gpus(); left > 0; left -= allocation.gpus.back())
            allocation.gpus.push_back(std::min(left, draw(9)));
        const Routes found = routes_of(plan, allocation);
        const Listed expected = listed(plan, allocation);
        CHECK((found.data_nics > 0) == expected.data_leaves);
        CHECK(found.tensor_cut == doctest::Approx(double(expected.cut_stages) / plan.pp));
    }
}

TEST_CASE("a plan must have the GPUs of the allocation") {
    CHECK_THROWS_WITH_AS(routes("dp=4", {2, 1}), "the plan dp=4 has 4 GPUs, but 3 are allocated", Error);
    CHECK_THROWS_AS(routes("dp=1", {}), Error);
}
