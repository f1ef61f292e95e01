// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/measure.hpp"

#include "tests/mpi/scratch.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

using namespace tpx;
namespace fs = std::filesystem;

TEST_CASE("in a full set of rounds, each rank meets every other once, and never two at a time") {
    for (int count = 1; count <= 12; ++count) {
        CAPTURE(count);
        std::vector<int> ranks;
        for (int k = 0; k < count; ++k) ranks.push_back(10 * k);
        std::set<std::pair<int, int>> met;
        for (const PairRound& round : rounds_of_all(ranks, 1000)) {
            std::set<int> busy;
            for (const auto& [a, b] : round) {
                CHECK(busy.insert(a).second);
                CHECK(busy.insert(b).second);
                CHECK(met.insert(std::minmax(a, b)).second);
            }
            if (count <= 8) CHECK(round.size() == 1);
        }
        CHECK(static_cast<int>(met.size()) == count * (count - 1) / 2);
    }
}

TEST_CASE("if there is no time for all rounds, every rank meets the same number of others") {
    std::vector<int> ranks(100);
    std::iota(ranks.begin(), ranks.end(), 0);
    const std::vector<PairRound> rounds = rounds_of_all(ranks, 7);
    CHECK(rounds.size() == 7);
    std::set<std::pair<int, int>> met;
    for (const PairRound& round : rounds) {
        CHECK(round.size() == 50);
        met.insert(round.begin(), round.end());
    }
    CHECK(met.size() == 7 * 50);
}

TEST_CASE("every link between ranks is measured, in both directions") {
    const mpi::Comm world = mpi::Comm::world();
    std::vector<int> ranks(world.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    const std::vector<LinkRates> links = measure_links(world, rounds_of_all(ranks, 1000), 0.2);
    if (world.rank() != 0) {
        CHECK(links.empty());
        return;
    }
    CHECK(static_cast<int>(links.size()) == world.size() * (world.size() - 1));
    for (const LinkRates& link : links) {
        CHECK(link.from != link.to);
        // Wide limits, because the machine may pause between two messages, even several times.
        CHECK(link.rate.median > 1);
        CHECK(link.rate.median < 1e13);
        CHECK(link.latency.median > 0);
        CHECK(link.latency.median < 60);
    }
}

TEST_CASE("some ranks may be idle") {
    const mpi::Comm world = mpi::Comm::world();
    CHECK(measure_links(world, {}, 0.1).empty());
    if (world.size() < 3) return;
    const std::vector<LinkRates> links = measure_links(world, {{{0, 2}}}, 0.1);
    CHECK(links.size() == (world.rank() == 0 ? 2 : 0));
}

TEST_CASE("a disk is measured, and nothing is left on it") {
    const mpi::Comm world = mpi::Comm::world();
    if (world.rank() != 0) return;
    std::string folder = fs::temp_directory_path() / "tpx-measure-XXXXXX";
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    const DiskRates rates = measure_disk(folder, 0.1, std::uint64_t{64} << 20);
    CHECK(rates.both.median > 0);
    CHECK(rates.buffered_write.median > 0);
    CHECK(rates.buffered_read.median > 0);
    CHECK(fs::is_empty(folder));
    fs::remove(folder);
    CHECK_THROWS_AS(measure_disk(folder + "/none", 0.1, 1), Error);
}

TEST_CASE("a link at the path where a disk is measured redirects no write") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    scratch.write("victim", "content");
    if (world.rank() != 0) return;
    const fs::path folder = scratch / "shared";
    fs::create_directory(folder);
    const std::string guess = fmt::format(".tpx-profile-{}", ::getpid());
    fs::create_symlink(scratch / "victim", folder / guess);
    fs::create_symlink(scratch / "victim", folder / (guess + "-2"));
    measure_disk(folder, 0.1, 1);
    CHECK(fs::file_size(scratch / "victim") == 7);
    CHECK(fs::is_symlink(folder / guess));
}

TEST_CASE("memory is copied at a plausible rate") {
    const MeasuredValue rate = measure_memory_copy(0.05);
    CHECK(rate.median > 1e3);
    CHECK(rate.median < 1e13);
}
