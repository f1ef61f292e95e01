// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/broadcast_compressed.hpp"

#include <doctest/doctest.h>

#include <random>

using namespace tpx;

TEST_CASE("all ranks have the bytes of rank 0 after a compressed broadcast") {
    const mpi::Comm world = mpi::Comm::world();
    std::mt19937 random{26};
    std::string noise(2'500'000, '\0');
    for (char& byte : noise) byte = static_cast<char>(random());
    for (const std::string& bytes : {std::string{}, std::string{"x"}, std::string(3'000'000, 'a'), noise}) {
        std::string mine = world.rank() == 0 ? bytes : std::string{"what was there before"};
        broadcast_compressed(world, mine);
        CHECK(mine == bytes);
    }
}
