// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/hdf5/sparse_bytes.hpp"

#include <doctest/doctest.h>

#include <random>

using tpx::formats::hdf5::SparseBytes;

TEST_CASE("sparse bytes equal a plain string after random writes and truncations") {
    for (unsigned seed = 0; seed < 300; ++seed) {
        CAPTURE(seed);
        std::mt19937 random{seed};
        const auto below = [&](std::size_t most) {
            return std::uniform_int_distribution<std::size_t>{0, most}(random);
        };
        SparseBytes sparse;
        std::string plain;
        for (int step = 0; step < 20; ++step) {
            const std::size_t offset = below(40'000);
            if (below(4) == 0) {
                sparse.resize(offset);
                plain.resize(offset, '\0');
                continue;
            }
            const std::string text(below(9'000), static_cast<char>('a' + step));
            sparse.write(offset, std::as_bytes(std::span{text}));
            if (plain.size() < offset + text.size()) plain.resize(offset + text.size(), '\0');
            plain.replace(offset, text.size(), text);
        }
        REQUIRE(sparse.size() == plain.size());
        std::string whole(plain.size() + 10, 'x');
        sparse.read(0, std::as_writable_bytes(std::span{whole}));
        CHECK(whole == plain + std::string(10, '\0'));
        std::string rebuilt(plain.size(), '\0');
        std::uint64_t end = 0;
        for (const SparseBytes::Run& run : sparse.runs()) {
            CHECK((run.offset > end || (run.offset == 0 && end == 0)));
            end = run.offset + run.bytes.size();
            rebuilt.replace(run.offset, run.bytes.size(), run.bytes);
        }
        CHECK(rebuilt == plain);
    }
}

TEST_CASE("sparse bytes take no memory for unwritten ranges") {
    SparseBytes sparse;
    const std::string text = "end";
    sparse.write(std::uint64_t{1} << 50, std::as_bytes(std::span{text}));
    CHECK(sparse.size() == (std::uint64_t{1} << 50) + 3);
    REQUIRE(sparse.runs().size() == 1);
    CHECK(sparse.runs()[0].bytes == "end");
}
