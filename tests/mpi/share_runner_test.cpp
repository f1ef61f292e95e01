// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/share_runner.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <ctime>
#include <thread>

using namespace tpx;
using namespace std::chrono_literals;

namespace {

// Processor time of this process while `body` runs, in seconds.
template <class Body>
double processor_seconds(Body&& body) {
    const std::clock_t begin = std::clock();
    body();
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

constexpr auto slow = 600ms;
constexpr double little = 0.2;  // seconds; a rank that spins takes all 0.6

}  // namespace

TEST_CASE("a rank that has finished its share sleeps until the others are done (R2)") {
    const mpi::Comm world = mpi::Comm::world();
    ShareRunner<int> shares{
        world, {.threads = 1}, 0, 1, [&](int, int&) { std::this_thread::sleep_for(slow); }, [] { return 0; }};
    mpi::barrier(world);
    const double spent = processor_seconds([&] {
        if (world.rank() == 0) shares.give(0);
        shares.finish();
    });
    CHECK(spent < little);
}

TEST_CASE("a rank that waits for others sleeps (R2)") {
    const mpi::Comm world = mpi::Comm::world();
    mpi::barrier(world);
    const double spent = processor_seconds([&] {
        if (world.rank() == 0) std::this_thread::sleep_for(slow);
        mpi::barrier(world);
        if (world.rank() == 0) std::this_thread::sleep_for(slow);
        mpi::agree(world, nullptr);
        if (world.rank() == 0) std::this_thread::sleep_for(slow);
        std::string bytes = "x";
        mpi::broadcast(world, bytes);
    });
    CHECK(spent < little);
}
