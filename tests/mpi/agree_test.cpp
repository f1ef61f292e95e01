// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/mpi.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace tpx;

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
