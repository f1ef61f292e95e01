// SPDX-License-Identifier: Apache-2.0
#include "formats/files/digests_file.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

using namespace tpx;
using formats::RecordedDigests;

namespace {

namespace fs = std::filesystem;

struct Scratch {
    Scratch() : folder{fs::temp_directory_path() / fmt::format("tpx-digests-{}", ::getpid())} {
        fs::create_directory(folder);
    }
    ~Scratch() { fs::remove_all(folder); }
    fs::path folder;
};

Catalogue catalogue_of(const fs::path& folder, const std::string& file) {
    return {.directory = folder, .files = {{file, 1}}};
}

}  // namespace

TEST_CASE("files of one folder have a record each") {
    const Scratch scratch;
    for (const char* name : {"a.pt", "b.pt"}) {
        write_file(scratch.folder / name, "x");
        const RecordedDigests digests{.tensors = {{name, name, "f32", "1"}}, .files = {{name, 1, "2"}}};
        formats::write_digests(formats::digests_path(scratch.folder, name), digests);
    }
    for (const char* name : {"a.pt", "b.pt"}) {
        const auto digests = formats::read_digests(catalogue_of(scratch.folder, name), name);
        REQUIRE(digests);
        REQUIRE(digests->tensors.size() == 1);
        CHECK(digests->tensors[0].name == name);
    }
    CHECK_FALSE(formats::read_digests(scratch.folder));
    CHECK(formats::files_as_tensors(catalogue_of(scratch.folder, "a.pt"), "a.pt").files.size() == 1);
    CHECK(formats::files_as_tensors(catalogue_of(scratch.folder, "a.pt")).files.size() == 2);
}

TEST_CASE("T22: a record has no more permissions than the files that it describes") {
    const Scratch scratch;
    for (const char* name : {"a.pt", "b.pt"}) write_file(scratch.folder / name, "x");
    fs::permissions(scratch.folder / "b.pt", fs::perms::owner_read | fs::perms::owner_write);
    const RecordedDigests digests{.tensors = {}, .files = {{"a.pt", 1, "2"}, {"b.pt", 1, "3"}}};
    const fs::path record = formats::digests_path(scratch.folder);
    formats::write_digests(record, digests);
    CHECK(fs::status(record).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("a file without a record of its own uses only the byte digests in its folder's record") {
    const Scratch scratch;
    const RecordedDigests digests{.tensors = {{"t", "t", "f32", "1"}}, .files = {{"a.pt", 1, "2"}, {"b.pt", 1, "3"}}};
    formats::write_digests(formats::digests_path(scratch.folder), digests);
    const auto found = formats::read_digests(catalogue_of(scratch.folder, "b.pt"), "b.pt");
    REQUIRE(found);
    CHECK(found->tensors.empty());
    CHECK_FALSE(found->has_tensors);
    REQUIRE(found->files.size() == 1);
    CHECK(found->files[0].digest == "3");
    CHECK_FALSE(formats::read_digests(catalogue_of(scratch.folder, "c.pt"), "c.pt"));
    CHECK(formats::read_digests(scratch.folder)->tensors.size() == 1);
}

TEST_CASE("neither a record that is a link nor its target is written") {
    const Scratch scratch;
    write_file(scratch.folder / "other", "mine");
    const auto path = formats::digests_path(scratch.folder);
    fs::create_symlink("other", path);
    CHECK_THROWS_WITH_AS(formats::write_digests(path, {}), doctest::Contains("tpx.digests.json: is a link; remove it"),
                         Error);
    CHECK(read_file(scratch.folder / "other") == "mine");
    CHECK(formats::dangling_links(catalogue_of(scratch.folder, "other")).empty());
    fs::create_symlink("nowhere", scratch.folder / "gone");
    CHECK(formats::dangling_links(catalogue_of(scratch.folder, "other")) == std::vector<std::string>{"gone"});
}
