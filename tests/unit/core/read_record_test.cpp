// SPDX-License-Identifier: Apache-2.0
#include "lib/core/read_record.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "tests/support/checkpoints.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

using namespace tpx;

namespace {

void write(const std::filesystem::path& path, const std::string& text) { std::ofstream{path} << text; }

}  // namespace

TEST_CASE("files that are opened or measured are recorded, until the record is sealed") {
    const test::Scratch scratch;
    for (const char* name : {"a", "b", "c"}) write(scratch.path() / name, name);
    ReadRecord record;
    read_file(scratch.path() / "a");
    size_of_file(scratch.path() / "b");
    open_file(scratch.path() / "new", O_WRONLY | O_CREAT);
    record.seal();
    read_file(scratch.path() / "c");
    CHECK(record.files().size() == 2);
    CHECK(record.files().at(scratch.path() / "a").size == 1);
    CHECK(to_string(record.files().at(scratch.path() / "b")).starts_with("1 bytes, modified 20"));
}

TEST_CASE("a recorded file that changed cannot be opened again (T16)") {
    const test::Scratch scratch;
    const auto path = scratch.path() / "latest";
    write(path, "10");
    ReadRecord record;
    read_file(path);
    CHECK_NOTHROW(record.check(path));
    SUBCASE("replaced") {
        write(scratch.path() / "other", "20");
        std::filesystem::rename(scratch.path() / "other", path);
        CHECK_THROWS_WITH_AS(read_file(path),
                             doctest::Contains("latest: changed while tpx was reading the checkpoint "
                                               "(it was replaced"),
                             Error);
    }
    SUBCASE("written to") {
        write(path, "200");
        CHECK_THROWS_WITH_AS(record.check(path), doctest::Contains("it was written to: was 2 bytes"), Error);
    }
    SUBCASE("gone") {
        std::filesystem::remove(path);
        CHECK_THROWS_AS(record.check(path), Error);
    }
}

TEST_CASE("the newest record counts") {
    const test::Scratch scratch;
    write(scratch.path() / "a", "a");
    ReadRecord outer;
    {
        const ReadRecord inner;
        read_file(scratch.path() / "a");
        CHECK(inner.files().size() == 1);
    }
    CHECK(outer.files().empty());
    read_file(scratch.path() / "a");
    CHECK(outer.files().size() == 1);
}
