// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/arrivals.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>
#include <string>

using namespace tpx;

namespace {

Tile tile_of(std::uint32_t file, std::uint64_t begin, std::uint64_t end) {
    Tile tile;
    tile.sources.push_back({.file = file, .begin = begin, .end = end, .bytes = end - begin, .run = end - begin});
    return tile;
}

}  // namespace

TEST_CASE("a tile is available once all of its bytes in the file have arrived") {
    Arrivals arrivals{2, {}, false};
    CHECK(arrivals.contain(tile_of(1, 0, 100)));
    CHECK_FALSE(arrivals.contain(tile_of(2, 10, 20)));
    arrivals.add({0, 15});
    CHECK_FALSE(arrivals.contain(tile_of(2, 10, 20)));
    arrivals.add({15, 20});
    CHECK(arrivals.contain(tile_of(2, 10, 20)));
    CHECK(arrivals.count() == 2);
    arrivals.wait(1, std::chrono::hours{1});  // returns at once
    arrivals.stop();
    CHECK_THROWS_AS(arrivals.wait(2, std::chrono::hours{1}), Error);
}

TEST_CASE("bytes that a tile has read are discarded in whole pages, if they are read only once") {
    std::string name = (std::filesystem::temp_directory_path() / "tpx-arrivals-XXXXXX").string();
    ::close(::mkstemp(name.data()));
    const std::string full(5 * 4096, 'x');
    for (const bool once : {false, true}) {
        std::ofstream{name} << full;
        Arrivals{0, name, once}.discard(tile_of(0, 100, 4 * 4096 + 1));
        std::string expected = full;
        if (once) expected.replace(4096, 3 * 4096, 3 * 4096, '\0');
        const std::string content = read_file(name);
        CHECK((content == expected || content == full));  // some file systems cannot discard
        if (!once) CHECK(content == full);
    }
    std::filesystem::remove(name);
}
