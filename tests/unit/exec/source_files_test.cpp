// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/source_files.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <string>

using namespace tpx;

namespace {

using Filter = Coding::Filter;
using Random = std::mt19937_64;

std::string shuffled(const std::string& bytes, std::size_t item) {
    std::string result;
    const std::size_t items = bytes.size() / item;
    for (std::size_t k = 0; k < item; ++k)
        for (std::size_t i = 0; i < items; ++i) result += bytes[i * item + k];
    return result + bytes.substr(items * item);
}

std::string deflated(const std::string& bytes, bool raw) {
    z_stream stream{};
    REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, raw ? -15 : 15, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    std::string result(deflateBound(&stream, bytes.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    stream.next_out = reinterpret_cast<Bytef*>(result.data());
    stream.avail_out = static_cast<uInt>(result.size());
    REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    result.resize(stream.total_out);
    deflateEnd(&stream);
    return result;
}

std::string summed(const std::string& bytes) {
    std::uint64_t low = 0, high = 0;  // by the definition: sums modulo 65535
    for (std::size_t k = 0; k < bytes.size(); k += 2) {
        const auto byte = [&](std::size_t at) -> std::uint64_t {
            return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0;
        };
        low = (low + (byte(k) << 8 | byte(k + 1))) % 65535;
        high = (high + low) % 65535;
    }
    // HDF5 folds carries, so a remainder of 0 becomes 65535, except for sums of zeros only.
    const bool zeros = std::ranges::all_of(bytes, [](char byte) { return byte == 0; });
    if (low == 0 && !zeros) low = 65535;
    if (high == 0 && !zeros) high = 65535;
    const std::uint64_t sum = high << 16 | low;
    std::string result = bytes;
    for (int k = 0; k < 4; ++k) result += static_cast<char>(sum >> (8 * k));
    return result;
}

/// `bytes` as an LZF stream: runs of one byte as copies, everything else as literals.
std::string in_lzf(const std::string& bytes) {
    std::string stream;
    for (std::size_t at = 0; at < bytes.size();) {
        const std::size_t run =
            std::min<std::size_t>({bytes.find_first_not_of(bytes[at], at), bytes.size(), at + (at % 2 == 0 ? 8 : 264)});
        stream += {'\0', bytes[at]};
        const std::size_t copied = run - at - 1;
        if (copied >= 9)
            stream += {'\xe0', static_cast<char>(copied - 9), '\0'};
        else if (copied >= 3)
            stream += {static_cast<char>((copied - 2) << 5), '\0'};
        else
            for (std::size_t k = 0; k < copied; ++k) stream += {'\0', bytes[at]};
        at = run;
    }
    return stream;
}

std::string swapped(std::string bytes, std::size_t item) {
    for (std::size_t k = 0; k + item <= bytes.size(); k += item)
        std::reverse(bytes.begin() + std::ptrdiff_t(k), bytes.begin() + std::ptrdiff_t(k + item));
    return bytes;
}

/// `bytes` with every `step`-th item, starting at `first`, negated; items have `item` bytes.
std::string turned(std::string bytes, std::size_t item, std::size_t first, std::size_t step) {
    for (std::size_t k = first; (k + 1) * item <= bytes.size(); k += step)
        bytes[k * item + item - 1] = static_cast<char>(bytes[k * item + item - 1] + 128);
    return bytes;
}

bool has(const Coding& coding, Filter filter) { return std::ranges::count(coding.filters, filter) > 0; }

std::string encoded(const Coding& coding, std::uint32_t skipped, std::string bytes) {
    if (has(coding, Filter::negate)) bytes = turned(bytes, coding.item, 0, 1);
    if (has(coding, Filter::conjugate)) bytes = turned(bytes, coding.item, 1, 2);
    if (has(coding, Filter::swap)) bytes = swapped(bytes, coding.item);
    for (std::size_t k = 0; k < coding.filters.size(); ++k) {
        if ((skipped >> k & 1) != 0) continue;
        switch (coding.filters[k]) {
            case Filter::deflate:
            case Filter::raw_deflate:
                bytes = deflated(bytes, coding.filters[k] == Filter::raw_deflate);
                break;
            case Filter::lzf:
                bytes = in_lzf(bytes);
                break;
            case Filter::scale_offset:  // testdata has files by libhdf5
                break;
            case Filter::shuffle:
                bytes = shuffled(bytes, coding.item);
                break;
            case Filter::fletcher32:
                bytes = summed(bytes);
                break;
            case Filter::swap:
            case Filter::negate:
            case Filter::conjugate:
                break;
        }
    }
    return bytes;
}

const std::vector<std::vector<Filter>> pipelines = {
    {},
    {Filter::deflate},
    {Filter::shuffle, Filter::deflate},
    {Filter::shuffle, Filter::deflate, Filter::fletcher32},
    {Filter::fletcher32, Filter::deflate},
    {Filter::fletcher32},
    {Filter::shuffle},
    {Filter::swap},
    {Filter::shuffle, Filter::deflate, Filter::swap},
    {Filter::raw_deflate},
    {Filter::lzf},
    {Filter::shuffle, Filter::lzf, Filter::fletcher32},
    {Filter::fletcher32, Filter::lzf},
    {Filter::negate},
    {Filter::conjugate, Filter::swap},
    {Filter::conjugate, Filter::negate, Filter::swap, Filter::raw_deflate},
};

// An encoded file and its decoded content.
struct Coded {
    std::shared_ptr<Coding> coding = std::make_shared<Coding>();
    std::string stored;
    std::string plain;
};

Coded random_coded(Random& random) {
    Coded coded;
    Coding& coding = *coded.coding;
    coding.filters = pipelines[random() % pipelines.size()];
    coding.item = std::uint32_t{1} << random() % 4;
    coding.chunk_size = coding.item * (1 + random() % 50);
    const std::uint64_t chunks = 1 + random() % 6;
    coding.size = coding.chunk_size * (chunks - 1) + coding.item * (1 + random() % (coding.chunk_size / coding.item));
    coding.fill = random() % 2 == 0 ? "" : "ab";
    for (std::uint64_t k = 0; k < chunks; ++k) {
        std::string bytes;
        for (std::uint64_t i = 0; i < coding.size_of(k); ++i) bytes += static_cast<char>(random() % 5);
        Coding::Chunk chunk{coded.stored.size(), 0, static_cast<std::uint32_t>(random() % 4 == 0 ? random() % 8 : 0)};
        // The dtype, not a filter that could be skipped, determines how items change.
        if (has(coding, Filter::swap) || has(coding, Filter::negate)) chunk.skipped = 0;
        if (random() % 5 == 0) {
            for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = coding.fill.empty() ? '\0' : "ab"[i % 2];
        } else {
            const std::string stored = encoded(coding, chunk.skipped, bytes);
            chunk.length = stored.size();
            coded.stored += stored + "gap";
        }
        coding.chunks.push_back(chunk);
        coded.plain += bytes;
    }
    return coded;
}

class TemporaryFile {
public:
    explicit TemporaryFile(const std::string& content) {
        std::string name = std::filesystem::temp_directory_path() / "tpx-coded-XXXXXX";
        ::close(::mkstemp(name.data()));
        path_ = name;
        std::ofstream{path_, std::ios::binary} << content;
    }
    ~TemporaryFile() { std::filesystem::remove(path_); }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

std::string read(SourceFiles& files, std::uint64_t offset, std::uint64_t size) {
    std::string bytes(size, '\0');
    files.read(0, offset, std::as_writable_bytes(std::span{bytes}));
    return bytes;
}

std::string message(const std::function<void()>& body) {
    try {
        body();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("any part of an encoded file decodes to the original bytes") {
    Random random{7};
    for (int round = 0; round < 300; ++round) {
        const Coded coded = random_coded(random);
        const TemporaryFile file{coded.stored};
        const std::vector<SourceFile> sources = {{file.path(), coded.coding}};
        SourceFiles files{sources};
        for (int part = 0; part < 10; ++part) {
            const std::uint64_t begin = random() % coded.plain.size();
            const std::uint64_t size = random() % (coded.plain.size() - begin + 1);
            CHECK(read(files, begin, size) == coded.plain.substr(begin, size));
        }
        CHECK(read(files, 0, coded.plain.size()) == coded.plain);
        CHECK(message([&] { read(files, 1, coded.plain.size()); }) != "");
    }
}

TEST_CASE("chunks that do not decode to their size or checksum are refused") {
    const std::string plain(64, 'x');
    const auto attempt = [](Coding coding, const std::string& stored) {
        coding.chunk_size = coding.size = 64;
        coding.chunks = {{0, stored.size(), 0}};
        const TemporaryFile file{stored};
        const std::vector<SourceFile> sources = {{file.path(), std::make_shared<Coding>(coding)}};
        SourceFiles files{sources};
        return message([&] { read(files, 0, 64); });
    };
    const Coding deflate{.filters = {Filter::deflate}}, sum{.filters = {Filter::fletcher32}}, none{};
    CHECK(attempt(deflate, deflated(plain, false)) == "");
    CHECK(attempt(deflate, deflated(plain + "x", false)).find("inflates to more than 64 bytes") != std::string::npos);
    CHECK(attempt(deflate, deflated(plain.substr(1), false)).find("inflates to 63 bytes") != std::string::npos);
    const std::string whole = deflated(plain, false);
    for (std::size_t cut = 1; cut < whole.size(); ++cut) CHECK(attempt(deflate, whole.substr(0, cut)) != "");
    CHECK(attempt(deflate, plain).find("is not a deflate stream") != std::string::npos);
    CHECK(attempt(sum, summed(plain)) == "");
    std::string flipped = summed(plain);
    flipped[5] ^= 1;
    CHECK(attempt(sum, flipped).find("checksum") != std::string::npos);
    CHECK(attempt(sum, "abc").find("have no checksum") != std::string::npos);
    CHECK(attempt(none, plain + "y").find("65 bytes are stored of 64") != std::string::npos);
}

TEST_CASE("invalid LZF streams are refused") {
    const auto attempt = [](const std::string& stored) {
        Coding coding{.filters = {Filter::lzf}, .chunk_size = 64, .size = 64, .chunks = {{0, stored.size(), 0}}};
        const TemporaryFile file{stored};
        const std::vector<SourceFile> sources = {{file.path(), std::make_shared<Coding>(coding)}};
        SourceFiles files{sources};
        return message([&] { read(files, 0, 64); });
    };
    const std::string plain = "abcdabcdabcdabcd" + std::string(48, 'x');
    const std::string whole = in_lzf(plain);
    CHECK(attempt(whole) == "");
    CHECK(attempt(in_lzf(plain + "x")).find("decompresses to more than 64 bytes") != std::string::npos);
    CHECK(attempt(in_lzf(plain.substr(1))).find("decompresses to 63 bytes instead of 64") != std::string::npos);
    for (std::size_t cut = 1; cut < whole.size(); ++cut) CHECK(attempt(whole.substr(0, cut)) != "");
    using namespace std::string_literals;
    CHECK(attempt("\x01\x61"s).find("a truncated LZF stream (2 bytes)") != std::string::npos);
    CHECK(attempt("\x00\x61\x20\x01"s).find("copies from 1 bytes before its start") != std::string::npos);
    CHECK(attempt("\x00\x61\xe0\xff\x00"s).find("decompresses to more than 64 bytes") != std::string::npos);
}

TEST_CASE("invalid scale-offset data is refused") {
    const auto attempt = [](const std::string& stored, std::vector<Filter> filters = {Filter::scale_offset}) {
        Coding coding{.filters = std::move(filters),
                      .scale_offset = ScaleOffset{.item = 4},
                      .chunk_size = 64,
                      .size = 64,
                      .chunks = {{0, stored.size(), 0}}};
        const TemporaryFile file{stored};
        const std::vector<SourceFile> sources = {{file.path(), std::make_shared<Coding>(coding)}};
        SourceFiles files{sources};
        return message([&] { read(files, 0, 64); });
    };
    using namespace std::string_literals;
    const auto header = [](char bits, char width = 8) { return bits + "\0\0\0"s + width + std::string(16, '\0'); };
    CHECK(attempt(header(3) + std::string(6, 'a')) == "");
    CHECK(attempt(header(0)) == "");
    CHECK(attempt(header(0, -1)) == "");  // the minimum has at most 8 bytes that count
    CHECK(attempt(header(32) + std::string(64, 'a')) == "");
    CHECK(attempt(header(32) + std::string(63, 'a')).find("has 63 bytes for 16 codes of 32 bits") != std::string::npos);
    CHECK(attempt(header(3) + std::string(5, 'a')).find("has 5 bytes for 16 codes of 3 bits") != std::string::npos);
    CHECK(attempt(header(33) + std::string(99, 'a')).find("codes of 33 bits for elements of 4") != std::string::npos);
    CHECK(attempt(header(3).substr(1)).find("too few for a header") != std::string::npos);
    const std::string packed = deflated(header(3) + std::string(6, 'a'), false);
    CHECK(attempt(packed, {Filter::scale_offset, Filter::deflate}) == "");
    CHECK(attempt(deflated(header(3) + std::string(66, 'a'), false), {Filter::scale_offset, Filter::deflate})
              .find("inflates to more than 86 bytes") != std::string::npos);
}

TEST_CASE("decoding leaves memory for the decoded bytes, or reports that there is none") {
    Coding coding{.chunk_size = 1 << 20, .size = 1 << 20, .chunks = {{0, 1000, 0}}};
    const std::vector<SourceFile> files = {{"a", std::make_shared<Coding>(coding)}};
    const FittedOptions plenty = fit_decoding_memory({.memory = 64 << 20, .threads = 2}, files);
    CHECK(plenty.options.threads == 2);
    CHECK(plenty.memory < 32 << 20);
    CHECK(fit_decoding_memory({.memory = 8 << 20, .threads = 4}, files).options.threads == 1);
    CHECK(message([&] { fit_decoding_memory({.memory = 1 << 20, .threads = 2}, files); }).find("a larger --memory") !=
          std::string::npos);
}
