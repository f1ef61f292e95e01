// SPDX-License-Identifier: Apache-2.0
#include "lib/core/digest.hpp"

#include "lib/core/crc.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <vector>

using namespace tpx;

namespace {

using Random = std::mt19937_64;

std::vector<std::byte> random_bytes(Random& random, Index count) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(count));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
}

// Cuts `box` into a random tiling.
void tile(Random& random, const Box& box, std::vector<Box>& tiles) {
    if (random() % 4 != 0) {
        for (int attempt = 0; attempt < 3 && box.size() > 0; ++attempt) {
            const int k = static_cast<int>(random() % static_cast<unsigned>(box.size()));
            if (box[k].size() < 2) continue;
            const Index cut = box[k].begin + 1 + static_cast<Index>(random() % std::uint64_t(box[k].size() - 1));
            Box lower = box, upper = box;
            lower[k].end = upper[k].begin = cut;
            tile(random, lower, tiles);
            return tile(random, upper, tiles);
        }
    }
    tiles.push_back(box);
}

// The elements of `box`, row-major, one at a time.
std::vector<std::byte> extract(const std::vector<std::byte>& data, const Shape& shape, int itemsize, const Box& box) {
    std::vector<std::byte> out;
    const Strides strides = row_major(shape);
    const Shape extent = sizes(box);
    for (Index i = 0; i < volume(box); ++i) {
        Index rest = i, offset = 0;
        for (int k = box.size() - 1; k >= 0; --k) {
            offset += (box[k].begin + rest % extent[k]) * strides[k];
            rest /= extent[k];
        }
        for (int b = 0; b < itemsize; ++b) out.push_back(data[std::size_t(offset * itemsize + b)]);
    }
    return out;
}

Shape random_shape(Random& random) {
    Shape shape;
    for (std::uint64_t k = random() % 5; k > 0; --k) shape.push_back(1 + Index(random() % 12));
    return shape;
}

}  // namespace

TEST_CASE("any tiling in any order gives the digest of the whole") {
    Random random{7};
    for (int round = 0; round < 300; ++round) {
        const Shape shape = random_shape(random);
        const int itemsize = 1 << random() % 5;
        CAPTURE(to_string(shape));
        CAPTURE(itemsize);
        const auto data = random_bytes(random, volume(shape) * itemsize);
        std::vector<Box> tiles;
        tile(random, whole(shape), tiles);
        std::shuffle(tiles.begin(), tiles.end(), random);
        Digest digest;
        for (const Box& box : tiles) add(digest, shape, itemsize, box, extract(data, shape, itemsize, box).data());
        CHECK(digest == Digest{Crc64::of(data), data.size()});
    }
}

TEST_CASE("a part can have any strides in memory") {
    Random random{8};
    for (int round = 0; round < 200; ++round) {
        const Shape shape = random_shape(random);
        const int itemsize = 1 << random() % 4;
        const auto data = random_bytes(random, volume(shape) * itemsize);
        std::vector<Box> tiles;
        tile(random, whole(shape), tiles);
        Digest expected, digest;
        const Strides strides = row_major(shape);
        for (const Box& box : tiles) {
            Index first = 0;
            for (int k = 0; k < box.size(); ++k) first += box[k].begin * strides[k];
            add(expected, shape, itemsize, box, extract(data, shape, itemsize, box).data());
            add(digest, shape, itemsize, box, data.data() + first * itemsize, strides);
        }
        CHECK(digest == expected);
    }
}

TEST_CASE("long rows give the same digest as short ones") {
    Random random{9};
    const Shape shape{3, 4, 6000};
    const auto data = random_bytes(random, volume(shape));
    for (Index width : {1, 16, 127, 128, 129, 4097, 5999}) {
        Digest digest;
        const Box left{{0, 3}, {0, 4}, {0, width}}, right{{0, 3}, {0, 4}, {width, 6000}};
        add(digest, shape, 1, right, extract(data, shape, 1, right).data());
        add(digest, shape, 1, left, extract(data, shape, 1, left).data());
        CHECK(digest == Digest{Crc64::of(data), data.size()});
    }
}

TEST_CASE("zeros of different lengths, and swapped elements, differ") {
    const std::vector<std::byte> zeros(16);
    Digest eight, sixteen;
    add(eight, Shape{8}, 1, Box{{0, 8}}, zeros.data());
    add(sixteen, Shape{16}, 1, Box{{0, 16}}, zeros.data());
    CHECK(eight != sixteen);
    CHECK(to_string(eight) == "0000000000000000-8");

    const std::byte ab[] = {std::byte{1}, std::byte{2}}, ba[] = {std::byte{2}, std::byte{1}};
    Digest first, second;
    add(first, Shape{2}, 1, Box{{0, 2}}, ab);
    add(second, Shape{2}, 1, Box{{0, 2}}, ba);
    CHECK(first != second);
}

TEST_CASE("an empty part adds nothing") {
    Digest digest;
    add(digest, Shape{0, 4}, 2, Box{{0, 0}, {0, 4}}, nullptr);
    CHECK(digest == Digest{});
}
