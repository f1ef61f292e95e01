// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/mpi.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <stdexcept>
#include <string>

using namespace tpx;

namespace {

/// The peak resident size of this process in bytes, 0 if it is unknown.
std::uint64_t peak_memory() {
    std::ifstream status{"/proc/self/status"};
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
    return 0;
}

/// Restarts the peak of peak_memory() and returns it; 0 if the kernel cannot do that.
std::uint64_t restart_peak_memory() {
    std::ofstream file{"/proc/self/clear_refs"};
    file << 5 << std::flush;
    return file ? peak_memory() : 0;
}

}  // namespace

TEST_CASE("when one rank fails, all ranks throw that rank's error") {
    const mpi::Comm world = mpi::Comm::world();
    const int culprit = world.size() - 1;
    const auto body = [&] {
        if (world.rank() == culprit) throw Error{Exit::no, "disk full"};
    };
    const std::string expected = world.size() == 1 ? "disk full" : fmt::format("rank {}: disk full", culprit);
    try {
        mpi::all_or_none(world, body);
        FAIL("nothing was thrown");
    } catch (const mpi::AgreedError& error) {
        CHECK(error.what() == expected);
        CHECK(error.exit() == Exit::no);
    }
}

TEST_CASE("when all ranks fail, the error names no rank") {
    const mpi::Comm world = mpi::Comm::world();
    const auto body = [] { throw std::runtime_error{"no such thing"}; };
    CHECK_THROWS_WITH_AS(mpi::all_or_none(world, body), "internal error: no such thing; please report this",
                         mpi::AgreedError);
}

TEST_CASE("when no rank fails, nothing is thrown") {
    const mpi::Comm world = mpi::Comm::world();
    CHECK_NOTHROW(mpi::all_or_none(world, [] {}));
}

TEST_CASE("reductions combine over all ranks") {
    const mpi::Comm world = mpi::Comm::world();
    const auto rank = static_cast<std::uint64_t>(world.rank());
    const auto size = static_cast<std::uint64_t>(world.size());
    std::vector<std::uint64_t> sum{rank, 1}, exclusive{std::uint64_t{1} << rank}, least{rank}, most{rank};
    mpi::all_sum(world, sum);
    mpi::all_xor(world, exclusive);
    mpi::all_min(world, least);
    mpi::all_max(world, most);
    CHECK(sum == std::vector{size * (size - 1) / 2, size});
    CHECK(exclusive[0] == (std::uint64_t{1} << size) - 1);
    CHECK(least[0] == 0);
    CHECK(most[0] == size - 1);
}

TEST_CASE("bytes reach every rank, and rank 0 from every rank") {
    const mpi::Comm world = mpi::Comm::world();
    const int root = world.size() / 2;
    std::string bytes = world.rank() == root ? std::string(40'000'000, 'x') + "end" : "";
    mpi::broadcast(world, bytes, root);
    CHECK(bytes.size() == 40'000'003);
    CHECK(bytes.ends_with("xend"));

    const std::vector<std::string> all = mpi::gather(world, std::to_string(world.rank()));
    CHECK(all.size() == (world.rank() == 0 ? static_cast<std::size_t>(world.size()) : 0));
    for (std::size_t k = 0; k < all.size(); ++k) CHECK(all[k] == std::to_string(k));
}

TEST_CASE("gather() gives only rank 0 the bytes of others, complete even if they are long") {
    const mpi::Comm world = mpi::Comm::world();
    std::string mine(40'000'000, static_cast<char>('a' + world.rank()));
    mine += std::to_string(world.rank());
    const std::uint64_t before = restart_peak_memory();
    const std::vector<std::string> all = mpi::gather(world, mine);
    if (world.rank() == 0) {
        REQUIRE(all.size() == static_cast<std::size_t>(world.size()));
        for (int k = 0; k < world.size(); ++k) {
            const std::string& theirs = all[static_cast<std::size_t>(k)];
            CHECK(theirs.size() == 40'000'001);
            CHECK(theirs.find_first_not_of(static_cast<char>('a' + k)) == 40'000'000);
            CHECK(theirs.ends_with(std::to_string(k)));
        }
    } else if (before != 0) {
        CHECK(peak_memory() - before < 20'000'000);  // not even a copy of its own
    }
    CHECK(mpi::gather(world, "").size() == all.size());
}
