// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/thread_pool.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <new>
#include <string>

using namespace tpx;
using namespace std::chrono_literals;

TEST_CASE("every job is done once") {
    std::atomic<int> sum{0};
    ThreadPool<int> crew{3, [&](int, int& job) { sum += job; }};
    for (int job = 1; job <= 100; ++job) {
        while (!crew.ready(1ms)) {
        }
        crew.push(int{job});
    }
    while (!crew.idle(1ms)) {
    }
    CHECK(sum == 5050);
    CHECK_FALSE(crew.error());
}

TEST_CASE("the first exception of any type ends the crew") {
    ThreadPool<int> crew{2, [&](int, int& job) {
                             if (job == 1) throw Error{Exit::no, "job {}", job};
                             if (job == 2) throw std::bad_alloc{};
                         }};
    crew.push(1);
    while (!crew.idle(1ms)) {
    }
    crew.push(2);
    crew.stop();
    REQUIRE(crew.error());
    CHECK(crew.error()->exit() == Exit::no);
    CHECK(std::string{crew.error()->what()} == "job 1");
}
