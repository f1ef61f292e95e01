// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/zip.hpp"

#include "formats/encodings/torch/zip_writer.hpp"
#include "lib/core/error.hpp"
#include "tests/support/memory_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

using namespace tpx;
using test::MemoryFile;
using torch::Zip;
using torch::ZipWriter;

namespace {

std::string sample(std::size_t large = 10) {
    ZipWriter writer;
    writer.add("data.pkl", "pickle");
    writer.add("data/0", std::string(large, 'x'), 64);
    writer.add("data/1", "", 64);
    writer.add("version", "3\n");
    writer.finish();
    return writer.runs()[0];
}

std::string all(const Zip& zip, std::string_view name) {
    const auto* const entry = zip.find(name);
    REQUIRE(entry != nullptr);
    return zip.read(*entry, entry->size);
}

}  // namespace

TEST_CASE("an archive in the middle of a file is read with its own offsets") {
    for (const std::size_t large : {std::size_t{10}, std::size_t{100'000}}) {
        const std::string archive = sample(large);
        const MemoryFile file{"before" + archive + "behind"};
        torch::FileRange range = file.range();
        range.offset = 6;
        range.length = archive.size();
        const Zip zip{range};
        CHECK(zip.root() == "archive");
        CHECK(zip.entries().size() == 4);
        CHECK(all(zip, "data.pkl") == "pickle");
        CHECK(all(zip, "data/0") == std::string(large, 'x'));
        CHECK(all(zip, "data/1").empty());
        CHECK(zip.find("data/2") == nullptr);
        CHECK(zip.payload(*zip.find("data/0")) % 64 == 0);
        for (const auto& entry : zip.entries()) zip.check_crc(entry);
        CHECK_THROWS_AS(zip.read(*zip.find("data/0"), large - 1), Error);
    }
}

TEST_CASE("a comment after the end record is allowed, even if it looks like an end record") {
    std::string archive = sample();
    const std::string comment = "PK\x05\x06 but no end record, only a comment";
    archive[archive.size() - 2] = static_cast<char>(comment.size());
    const MemoryFile file{archive + comment};
    CHECK(all(Zip{file.range()}, "version") == "3\n");
}

TEST_CASE("numbers beyond 32 bits are written as zip64, and read") {
    constexpr std::uint64_t large = (std::uint64_t{5} << 30) + 7;
    ZipWriter writer;
    writer.add("data.pkl", "pickle");
    writer.add_hole("data/0", large, 64);
    writer.add("version", "3\n");
    writer.finish();
    std::string path = std::filesystem::temp_directory_path() / "tpx-zip64-XXXXXX";
    const Fd fd{::mkstemp(path.data())};
    std::filesystem::remove(path);
    const auto bytes = [](const std::string& text) { return std::as_bytes(std::span{text}); };
    write_at(fd, 0, bytes(writer.runs()[0]), path);
    write_at(fd, writer.runs()[0].size() + large, bytes(writer.runs()[1]), path);

    const Zip zip{{&fd, path, 0, writer.runs()[0].size() + large + writer.runs()[1].size()}};
    REQUIRE(zip.find("data/0") != nullptr);
    CHECK(zip.find("data/0")->size == large);
    CHECK(zip.payload(*zip.find("data/0")) == writer.runs()[0].size());
    CHECK(all(zip, "version") == "3\n");
}

TEST_CASE("every truncation of an archive is refused") {
    const std::string archive = sample();
    for (std::size_t size = 0; size < archive.size(); ++size) {
        const MemoryFile file{archive.substr(0, size)};
        CHECK_THROWS_AS(Zip{file.range()}, Error);
    }
}

TEST_CASE("every changed byte of an archive is refused, found by the CRC, or harmless") {
    const std::string archive = sample();
    for (std::size_t i = 0; i < archive.size(); ++i)
        for (const char change : {'\x01', '\x80', '\xff'}) {
            std::string damaged = archive;
            damaged[i] = static_cast<char>(damaged[i] ^ change);
            const MemoryFile file{damaged};
            try {
                const Zip zip{file.range()};
                for (const auto& entry : zip.entries()) zip.check_crc(entry);
            } catch (const Error&) {
                // Refused, as it should be.
            }
        }
}
