// SPDX-License-Identifier: Apache-2.0
#include "lib/core/mapped_file.hpp"

#include "lib/core/error.hpp"
#include "lib/core/memory_file.hpp"

#include <doctest/doctest.h>

#include <array>
#include <utility>

using namespace tpx;

TEST_CASE("bytes written to a mapping are in the file and in its other mappings") {
    MappedFile reader{Fd{}, 0, MappedFile::Access::read, "empty"};
    CHECK(reader.bytes().empty());
    std::array<std::byte, 2> read{};
    {
        Fd file = make_memory_file("test", 10000);
        MappedFile writer{file, 10000, MappedFile::Access::write, "file"};
        reader = MappedFile{file, 10000, MappedFile::Access::read, "file"};
        REQUIRE(writer.bytes().size() == 10000);
        writer.bytes()[9999] = std::byte{7};
        read_at(file, 9998, read, "file");
    }
    CHECK(read[0] == std::byte{0});
    CHECK(read[1] == std::byte{7});
    CHECK(reader.bytes()[9999] == std::byte{7});  // the mapping outlives the file's descriptor
    const MappedFile moved = std::move(reader);
    CHECK(moved.bytes()[9999] == std::byte{7});
}

TEST_CASE("an error names the file that cannot be mapped") {
    CHECK_THROWS_WITH_AS(MappedFile(Fd{}, 1, MappedFile::Access::read, "none"), "none: Bad file descriptor", Error);
}
