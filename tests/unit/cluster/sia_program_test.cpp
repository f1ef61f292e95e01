// SPDX-License-Identifier: Apache-2.0
// sia_program decides for groups of equal jobs and skips choices that cannot be part of a best decision. Its total cost
// must equal that of dynamic programming over all jobs, choices and numbers of GPUs.
#include "lib/cluster/policies/sia_program.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace tpx {
namespace {

// Owns the choices of its groups.
struct RandomGroups {
    std::vector<std::vector<SiaChoice>> choices;
    std::vector<int> counts;

    std::vector<SiaGroup> groups() const {
        std::vector<SiaGroup> all;
        for (std::size_t i = 0; i < counts.size(); ++i) all.push_back({choices[i], counts[i]});
        return all;
    }
};

SiaCost least_sum(const std::vector<SiaGroup>& groups, int gpus) {
    std::vector<SiaCost> least(static_cast<std::size_t>(gpus) + 1, 0);
    for (const SiaGroup& group : groups) {
        for (int job = 0; job < group.count; ++job) {
            std::vector<SiaCost> next(least.size(), std::numeric_limits<SiaCost>::max());
            for (const SiaChoice& choice : group.choices)
                for (int has = choice.gpus; has <= gpus; ++has)
                    next[has] = std::min(next[has], least[has - choice.gpus] + choice.cost);
            least = std::move(next);
        }
    }
    return least.back();
}

// Checks that the shares contain all jobs and fit, and returns their sum of costs.
SiaCost checked_sum(const std::vector<SiaGroup>& groups, int gpus, const std::vector<std::vector<SiaShare>>& shares) {
    SiaCost sum = 0;
    std::int64_t used = 0;
    REQUIRE(shares.size() == groups.size());
    for (std::size_t i = 0; i < groups.size(); ++i) {
        int jobs = 0;
        for (const SiaShare& share : shares[i]) {
            const SiaChoice& choice = groups[i].choices[static_cast<std::size_t>(share.choice)];
            CHECK(share.count >= 0);
            jobs += share.count;
            used += std::int64_t{choice.gpus} * share.count;
            sum += choice.cost * share.count;
        }
        CHECK(jobs == groups[i].count);
    }
    CHECK(used <= gpus);
    return sum;
}

// As of Sia: convex costs, one large number of GPUs, or, if `wild`, costs without order and with many equal ones.
RandomGroups random_groups(std::mt19937& random, bool wild) {
    const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
    RandomGroups all;
    for (int left = 1 + below(7); left > 0; --left) {
        std::vector<SiaChoice> choices{{0, below(4) == 0 ? 1 : 0}};
        const int most = 1 << below(5), least = below(3) == 0 ? most : 1 + below(2);
        for (int gpus = least; gpus <= std::max(least, most); ++gpus) {
            const double cost = std::pow(static_cast<double>(gpus) / least, -0.35) - 1.1;
            choices.push_back({gpus, wild ? below(12) - 9 : std::llround(cost * 65536) * 16 + below(2)});
        }
        all.choices.push_back(std::move(choices));
        all.counts.push_back(below(3) == 0 ? 1 + below(20) : 1 + below(3));
    }
    return all;
}

TEST_CASE("Sia's program has the least sum of costs") {
    int decisions = 0, full = 0;
    for (const bool wild : {false, true}) {
        for (unsigned seed = 0; seed < 1500; ++seed) {
            std::mt19937 random{seed};
            const RandomGroups jobs = random_groups(random, wild);
            const std::vector<SiaGroup> groups = jobs.groups();
            SiaProgram program;
            for (int round = 0; round < 4; ++round) {  // each call begins with the price of the last
                const int gpus = static_cast<int>(random() % 70);
                const SiaCost sum = checked_sum(groups, gpus, program.solve(groups, gpus));
                REQUIRE(sum == least_sum(groups, gpus));
                ++decisions;
                int most = 0;
                for (const SiaGroup& group : groups) most += group.choices.back().gpus * group.count;
                full += most > gpus;
            }
        }
    }
    CHECK(decisions == 12000);
    CHECK(full > 5000);
}

TEST_CASE("programs without jobs or without GPUs have a solution") {
    SiaProgram program;
    CHECK(program.solve({}, 8).empty());
    const std::vector<SiaChoice> choices{{0, 0}, {1, -5}};
    const std::vector<SiaGroup> groups{{choices, 3}};
    CHECK(checked_sum(groups, 0, program.solve(groups, 0)) == 0);
    CHECK(checked_sum(groups, 2, program.solve(groups, 2)) == -10);
}

}  // namespace
}  // namespace tpx
