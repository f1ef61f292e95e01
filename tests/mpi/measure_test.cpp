// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/measure.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <numeric>
#include <set>

using namespace tpx;

TEST_CASE("in a tournament everybody meets every other once, and nobody two at a time") {
    for (int count = 1; count <= 9; ++count) {
        CAPTURE(count);
        std::set<std::pair<int, int>> met;
        for (const std::vector<int>& round : tournament(count)) {
            REQUIRE(static_cast<int>(round.size()) == count);
            for (int k = 0; k < count; ++k) {
                if (round[k] < 0) continue;
                CHECK(round[k] != k);
                CHECK(round[round[k]] == k);
                CHECK(met.insert({k, round[k]}).second);
            }
        }
        CHECK(static_cast<int>(met.size()) == count * (count - 1));
    }
}

TEST_CASE("medians and quartiles") {
    CHECK(summarise({}).median == 0);
    CHECK(summarise({3, 1, 2}).median == 2);
    CHECK(summarise({1, 2, 3, 4}).median == 2.5);
    CHECK(summarise({1, 2, 3, 4, 5}).spread == doctest::Approx(2.0 / 3));
    CHECK(summarise({5, 5, 5}).spread == 0);
}

TEST_CASE("every link between ranks is measured, in both directions") {
    const mpi::Comm world = mpi::Comm::duplicate(MPI_COMM_WORLD);
    std::vector<int> ranks(world.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    const std::vector<LinkRates> links = measure_links(world, ranks, 0.2);
    if (world.rank() != 0) {
        CHECK(links.empty());
        return;
    }
    CHECK(static_cast<int>(links.size()) == world.size() * (world.size() - 1));
    for (const LinkRates& link : links) {
        CHECK(link.from != link.to);
        CHECK(link.rate.median > 1e6);
        CHECK(link.latency.median > 0);
        CHECK(link.latency.median < 1);
    }
}

TEST_CASE("some ranks may stand by") {
    const mpi::Comm world = mpi::Comm::duplicate(MPI_COMM_WORLD);
    CHECK(measure_links(world, {0}, 0.1).empty());
}

TEST_CASE("a disk is measured, and nothing is left on it") {
    const mpi::Comm world = mpi::Comm::duplicate(MPI_COMM_WORLD);
    if (world.rank() != 0) return;
    const std::filesystem::path folder = std::filesystem::temp_directory_path() / "tpx-measure-test";
    std::filesystem::create_directory(folder);
    const DiskRates rates = measure_disk(folder, 0.1, std::uint64_t{64} << 20);
    CHECK(rates.buffered_write.median > 0);
    CHECK(rates.buffered_read.median > 0);
    CHECK(std::filesystem::is_empty(folder));
    std::filesystem::remove(folder);
    CHECK_THROWS_AS(measure_disk(folder / "none", 0.1, 1), Error);
}

TEST_CASE("memory is copied at a rate that can be") {
    const Measured rate = measure_memory_copy(0.05);
    CHECK(rate.median > 1e7);
    CHECK(rate.median < 1e13);
}
