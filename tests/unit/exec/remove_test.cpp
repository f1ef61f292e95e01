// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/remove.hpp"

#include "lib/core/unfinished.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

using namespace tpx;
namespace fs = std::filesystem;

namespace {

fs::path make_scratch() {
    std::string name = (fs::temp_directory_path() / "tpx-remove-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    return name;
}

// Makes a folder in `folder` whose path is too long for any call, even by root.
void add_unreachable(const fs::path& folder) {
    const fs::path start = fs::current_path();
    const std::string name(250, 'd');
    fs::current_path(folder);
    for (int level = 0; level < 20; ++level) {
        REQUIRE(::mkdir(name.c_str(), 0777) == 0);
        REQUIRE(::chdir(name.c_str()) == 0);
    }
    fs::current_path(start);
}

}  // namespace

TEST_CASE("a folder is removed completely, including its marker") {
    const fs::path folder = make_scratch();
    fs::create_directories(folder / "a/b");
    std::ofstream{folder / "a/b/payload"} << "1";
    std::ofstream{folder / unfinished_marker} << "unfinished\n";
    CHECK(remove_tree(folder).empty());
    CHECK_FALSE(fs::exists(folder));
}

TEST_CASE("a folder that cannot be removed keeps its marker") {
    const fs::path folder = make_scratch();
    add_unreachable(folder);
    std::ofstream{folder / "payload"} << "1";
    std::ofstream{folder / unfinished_marker} << "unfinished\n";
    CHECK_FALSE(remove_tree(folder).empty());
    CHECK_FALSE(fs::exists(folder / "payload"));
    CHECK(fs::exists(folder / unfinished_marker));
    fs::remove_all(folder);
}
