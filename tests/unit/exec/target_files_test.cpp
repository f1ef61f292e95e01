// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/target_files.hpp"

#include "lib/core/error.hpp"
#include "lib/exec/open_files.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>

#include <string>

using namespace tpx;

namespace {

std::size_t open_descriptors() {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) ++count;
    return count;
}

}  // namespace

TEST_CASE("a file that is adopted, written, accessed with direct I/O and synced is opened only twice") {
    std::string folder = (std::filesystem::temp_directory_path() / "tpx-targets-XXXXXX").string();
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    const std::vector<std::filesystem::path> paths{folder + "/a", folder + "/b", "/nowhere/at/all"};
    const std::size_t before = open_descriptors();
    TargetFiles files{paths};
    files.adopt(0, open_file(paths[0], O_WRONLY | O_CREAT));
    files.write(0, 3, std::as_bytes(std::span{"end", 3}));
    CHECK(files.buffered(0) == files.buffered(0));
    CHECK(files.direct(0) == files.direct(0));
    files.sync(0);
    CHECK(open_descriptors() <= before + 2);
    CHECK_THROWS_AS(files.buffered(2), Error);
    CHECK(files.direct(2) == nullptr);
    files.close();
    CHECK(open_descriptors() == before);
    CHECK(read_file(paths[0]) == std::string{"\0\0\0end", 6});
    std::filesystem::remove_all(folder);
}

TEST_CASE("of very many files only some are open at a time, and files in use are not closed") {
    std::string folder = (std::filesystem::temp_directory_path() / "tpx-targets-XXXXXX").string();
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    std::vector<std::filesystem::path> paths;
    for (int k = 0; k < 40; ++k) paths.push_back(folder + "/" + std::to_string(k));
    const std::size_t before = open_descriptors();
    TargetFiles files{paths, 8};
    for (std::uint32_t k = 0; k < 40; ++k) files.adopt(k, open_file(paths[k], O_WRONLY | O_CREAT));
    CHECK(open_descriptors() == before + 8);
    const auto used = files.buffered(7);
    for (std::uint32_t k = 0; k < 40; ++k) files.write(k, 0, std::as_bytes(std::span{"x", 1}));
    CHECK(open_descriptors() == before + 8);
    CHECK(files.buffered(7) == used);
    for (std::uint32_t k = 0; k < 40; ++k) CHECK(read_file(paths[k]) == "x");
    files.close();
    std::filesystem::remove_all(folder);
}
