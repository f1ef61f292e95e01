// SPDX-License-Identifier: Apache-2.0
#include "lib/core/path.hpp"

#include "lib/core/error.hpp"
#include "tests/support/scratch.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

namespace fs = std::filesystem;
using namespace tpx;
using test::message_of;
using test::Scratch;

TEST_CASE("absent means ENOENT or ENOTDIR, and nothing else (T19)") {
    const Scratch folder;
    const fs::path file = folder.path() / "file", loop = folder.path() / "loop", dangling = folder.path() / "dangling";
    std::ofstream{file} << "x";
    fs::create_symlink("loop", loop);
    fs::create_symlink("nowhere", dangling);

    CHECK(path_kind(file) == PathKind::file);
    CHECK(path_kind(folder.path()) == PathKind::directory);
    CHECK(path_kind("/dev/null") == PathKind::other);
    CHECK(path_kind(folder.path() / "none") == PathKind::absent);
    CHECK(path_kind(file / "below") == PathKind::absent);
    CHECK(path_kind(dangling) == PathKind::absent);
    CHECK(entry_exists(dangling));
    CHECK(entry_exists(loop));
    CHECK_FALSE(entry_exists(folder.path() / "none"));

    const std::string cause = loop.string() + ": Too many levels of symbolic links";
    CHECK(message_of([&] { path_exists(loop); }) == cause);
    CHECK(message_of([&] { path_is_file(loop); }) == cause);
    CHECK(message_of([&] { path_is_directory(loop); }) == cause);
    CHECK(message_of([&] { list_directory(loop); }) == cause);
    CHECK(message_of([&] { list_files_below(loop); }) == cause);
    CHECK(message_of([&] { real_path(loop); }) == cause);
    CHECK(message_of([&] { real_path(dangling); }) == dangling.string() + ": No such file or directory");
}

TEST_CASE("directories are listed in order") {
    const Scratch folder;
    fs::create_directories(folder.path() / "b/c");
    for (const char* name : {"z", "b/y", "b/c/x", ".hidden"}) std::ofstream{folder.path() / name} << "x";
    fs::create_directory_symlink("b", folder.path() / "d");
    fs::create_symlink("z", folder.path() / "a");
    fs::create_symlink("nowhere", folder.path() / "e");

    CHECK(list_directory(folder.path()) == std::vector<std::string>{".hidden", "a", "b", "d", "e", "z"});
    CHECK(list_directory(folder.path() / "none").empty());
    CHECK(list_directory(folder.path() / "z").empty());
    CHECK(list_files_below(folder.path()) == std::vector<fs::path>{".hidden", "a", "b/c/x", "b/y", "z"});
    CHECK(list_files_below(folder.path() / "none").empty());
    make_directories(folder.path() / "n/e/w");
    make_directories(folder.path() / "n/e/");
    CHECK(path_is_directory(folder.path() / "n/e/w"));
    CHECK(message_of([&] { make_directories(folder.path() / "z/x"); }) ==
          (folder.path() / "z/x").string() + ": Not a directory");
    CHECK(message_of([&] { make_directories(folder.path() / "z"); }) ==
          (folder.path() / "z").string() + ": File exists");
    CHECK(real_path(folder.path() / "d/c") == real_path(folder.path()) / "b/c");
}
