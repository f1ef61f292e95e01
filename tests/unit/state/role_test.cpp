// SPDX-License-Identifier: Apache-2.0
#include "lib/state/role.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace tpx {

TEST_CASE("every role is found by its name, and no other word is") {
    std::vector<std::string> words;
    for (int number = 0; number <= static_cast<int>(Role::weight); ++number) {
        const Role role = static_cast<Role>(number);
        words.emplace_back(name(role));
        CHECK(role_by_name(words.back()) == role);
        CHECK(fmt::format("{}", role) == words.back());
    }
    CHECK(std::ranges::is_sorted(words));  // tables list roles in this order
    for (const char* word : {"", "Weight", "weights", "exp_avg_", "fp32"}) CHECK_FALSE(role_by_name(word));
    CHECK(names_of(roles_by_name(words)) == words);
    CHECK_THROWS_AS(roles_by_name(std::vector<std::string>{"weight", "momentum"}), Error);
}

TEST_CASE("ZeRO shards optimizer state and nothing else") {
    for (const Role role : {Role::master, Role::exp_avg, Role::exp_avg_sq, Role::step, Role::state})
        CHECK(is_optimizer_state(role));
    for (const Role role : {Role::weight, Role::quantized, Role::extra, Role::copy, Role::virtual_node})
        CHECK_FALSE(is_optimizer_state(role));
}

}  // namespace tpx
