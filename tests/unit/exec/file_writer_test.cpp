// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/file_writer.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace tpx;

TEST_CASE("long and short writes, aligned or not, write the same bytes to the file") {
    constexpr std::size_t size = 16 << 20;
    std::string name = (std::filesystem::temp_directory_path() / "tpx-writer-XXXXXX").string();
    ::close(::mkstemp(name.data()));
    const std::vector<std::filesystem::path> paths = {name, "/nowhere/at/all"};
    std::mt19937_64 random{1};
    std::unique_ptr<std::byte, decltype(&std::free)> memory{
        static_cast<std::byte*>(std::aligned_alloc(FileWriter::alignment, size)), &std::free};
    const std::span<std::byte> bytes{memory.get(), size};
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());

    TargetFiles files{paths};
    FileWriter writer{files, paths.size()};
    CHECK_FALSE(writer.has_written(0));
    for (std::size_t begin = 0; begin < size;) {
        // Below, within and above the range of sizes for which only some file systems use direct I/O.
        const std::size_t sizes[] = {1 + random() % 5000, (128 << 10) + random() % (384 << 10), 1500000};
        const std::size_t part = std::min<std::size_t>(size - begin, sizes[random() % 3]);
        // Usually memory and file have the same offset within a page, sometimes not.
        if (random() % 4 == 0) {
            const std::vector<std::byte> copy(bytes.begin() + std::ptrdiff_t(begin),
                                              bytes.begin() + std::ptrdiff_t(begin + part));
            writer.write(0, begin, copy);
        } else {
            writer.write(0, begin, bytes.subspan(begin, part));
        }
        begin += part;
    }
    CHECK(writer.has_written(0));
    const std::string content = read_file(name);
    CHECK(std::ranges::equal(std::as_bytes(std::span{content}), bytes));
    CHECK_THROWS_AS(writer.write(1, 0, bytes), Error);
    std::filesystem::remove(name);
}
