// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/pickle.hpp"
#include "formats/encodings/torch/zip_writer.hpp"
#include "lib/core/crc.hpp"
#include "lib/core/error.hpp"
#include "tests/support/memory_file.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <zlib.h>

#include <string>
#include <vector>

using namespace tpx;
using test::MemoryFile;
using torch::Archive;
using torch::Zip;
using std::string_literals::operator""s;

namespace {

std::uint64_t peak_memory() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

/// A zip archive with one deflated member of `size` zeros.
std::string deflated_zeros(std::uint64_t size) {
    std::string stored(size / 1000 + 1000, '\0');
    const std::string zeros(1 << 20, '\0');
    z_stream stream{};
    REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    stream.next_out = reinterpret_cast<Bytef*>(stored.data());
    stream.avail_out = static_cast<uInt>(stored.size());
    uLong crc = 0;
    for (std::uint64_t done = 0; done < size; done += zeros.size()) {
        stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(zeros.data()));
        stream.avail_in = static_cast<uInt>(zeros.size());
        crc = crc32(crc, stream.next_in, stream.avail_in);
        deflate(&stream, done + zeros.size() == size ? Z_FINISH : Z_NO_FLUSH);
    }
    stored.resize(stream.total_out);
    deflateEnd(&stream);
    std::string zip;
    const auto put = [&](std::uint64_t value, int bytes) {
        for (int k = 0; k < bytes; ++k) zip += static_cast<char>(value >> 8 * k & 0xff);
    };
    const auto sizes = [&] {
        put(crc, 4);
        put(stored.size(), 4);
        put(size, 4);
    };
    zip = "PK\3\4"s;
    for (int field : {20, 0, 8, 0, 0}) put(static_cast<std::uint64_t>(field), 2);
    sizes();
    put(3, 2);
    put(0, 2);
    zip += "a/b" + stored;
    const std::size_t directory = zip.size();
    zip += "PK\1\2"s;
    for (int field : {20, 20, 0, 8, 0, 0}) put(static_cast<std::uint64_t>(field), 2);
    sizes();
    put(3, 2);
    for (int bytes : {2, 2, 2, 2, 4, 4}) put(0, bytes);
    zip += "a/b";
    const std::size_t length = zip.size() - directory;
    zip += "PK\5\6"s;
    for (int field : {0, 0, 1, 1}) put(static_cast<std::uint64_t>(field), 2);
    put(length, 4);
    put(directory, 4);
    put(0, 2);
    return zip;
}

std::string archive_of(const std::string& pickle) {
    torch::ZipWriter writer;
    writer.add("data.pkl", pickle);
    writer.add("version", "3\n");
    writer.add("data/0", std::string(4, '\0'), 64);
    writer.finish();
    return writer.runs()[0];
}

/// The opcodes that make a tensor of one element.
const std::string one_tensor =
    "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"
    "0X\x03\0\0\0cpuK\x01tQK\0K\x01\x85K\x01\x85\x89"
    "ccollections\nOrderedDict\n)RtR"s;

}  // namespace

TEST_CASE("T23: the CRC of highly compressed data is computed in parts") {
    constexpr std::uint64_t size = std::uint64_t{128} << 20;
    const MemoryFile file{deflated_zeros(size)};
    const Zip zip{file.range()};
    REQUIRE(zip.entries().size() == 1);
    CHECK(zip.entries()[0].size == size);
    const std::uint64_t before = peak_memory();
    zip.check_crc(zip.entries()[0]);
    CHECK(peak_memory() - before < size / 4);
    CHECK(zip.read(zip.entries()[0], size) == std::string(size, '\0'));
}

TEST_CASE("T23: a pickle may not take more memory than its limit") {
    const std::string nested = "\x80\x02"s + std::string(1 << 20, ']') + ".";
    CHECK_NOTHROW(torch::read_pickle(nested));
    CHECK_NOTHROW(torch::read_pickle(nested, 64 * nested.size()));
    CHECK_THROWS_AS(torch::read_pickle(nested, 1 << 20), Error);
}

TEST_CASE("T23: one tensor that a pickle names a million times is refused, a few thousand are not") {
    const auto repeated = [](int times) {
        std::string pickle = "\x80\x02]("s + one_tensor + "q\x01";
        for (int k = 0; k < times; ++k) pickle += "h\x01";
        return archive_of(pickle + "e.");
    };
    const MemoryFile few{repeated(5000)};
    CHECK(Archive::open(few.range()).tensor_values().size() == 5001);
    const MemoryFile many{repeated(1'000'000)};
    CHECK_THROWS_WITH_AS(Archive::open(many.range()).tensor_values(),
                         doctest::Contains("more tensors than a file of its size can contain"), Error);
}

TEST_CASE("T23: the total length of names that nesting makes long is limited") {
    const std::string key = "X\xff\0\0\0"s + std::string(255, 'k');
    std::string pickle = "\x80\x02}"s + key + "q\x02";
    constexpr int levels = 15;
    for (int k = 1; k < levels; ++k) pickle += "}h\x02";
    pickle += "](" + one_tensor + "q\x01";
    for (int k = 0; k < 60'000; ++k) pickle += "h\x01";
    pickle += "e" + std::string(levels, 's') + ".";
    const MemoryFile file{archive_of(pickle)};
    CHECK_THROWS_WITH_AS(Archive::open(file.range()).tensor_values(),
                         doctest::Contains("names of its tensors are longer"), Error);
}
