// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/policies/sia_turns.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

namespace tpx {

TEST_CASE("jobs with the same choice at the same cost get it in order of arrival, even in different groups") {
    const std::vector<SiaChoice> small{{0, 0}, {1, -10}}, large{{0, 0}, {1, -10}, {2, -15}};
    const std::vector<int> one{3, 5, 6}, other{1, 2, 4, 7};
    const std::vector<SiaShare> two_of_three{{0, 1}, {1, 2}}, one_of_each{{0, 2}, {1, 1}, {2, 1}};
    const std::vector<SiaTurn> groups{{small, one, two_of_three}, {large, other, one_of_each}};
    std::map<int, int> gpus;
    for (const SiaWish& wish : sia_turns(groups)) gpus[wish.id] = wish.gpus;
    CHECK(gpus == std::map<int, int>{{1, 2}, {2, 1}, {3, 1}, {4, 1}});
}

TEST_CASE("jobs are reordered only among those with the same number of GPUs at the same cost") {
    const std::vector<SiaChoice> cheap{{0, 0}, {1, -10}}, dear{{0, 0}, {1, -9}}, large{{0, 0}, {8, -10}};
    const std::vector<int> one{7}, other{1}, last{2};
    const std::vector<SiaShare> all{{1, 1}}, none{{0, 1}};
    const std::vector<SiaTurn> groups{{cheap, one, all}, {dear, other, none}, {large, last, none}};
    const std::vector<SiaWish> wishes = sia_turns(groups);
    REQUIRE(wishes.size() == 1);
    CHECK(wishes[0].id == 7);
}

}  // namespace tpx
