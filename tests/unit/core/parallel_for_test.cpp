// SPDX-License-Identifier: Apache-2.0
#include "lib/core/parallel_for.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <stdexcept>
#include <string>

using namespace tpx;

TEST_CASE("each number is visited once") {
    for (const std::size_t threads : {1, 3, 40}) {
        std::vector<std::atomic<int>> visits(100);
        parallel_for(visits.size(), threads, [&](std::size_t i) { ++visits[i]; });
        for (const std::atomic<int>& count : visits) CHECK(count == 1);
    }
    parallel_for(0, 4, [](std::size_t) { FAIL("there is no work"); });
}

TEST_CASE("the exception for the lowest number is thrown, whichever comes first") {
    const auto work = [](std::size_t i) {
        if (i == 2) std::this_thread::sleep_for(std::chrono::milliseconds{20});
        if (i >= 2) throw std::runtime_error{std::to_string(i)};
    };
    for (int run = 0; run < 5; ++run) CHECK_THROWS_WITH(parallel_for(50, 4, work), "2");
}
