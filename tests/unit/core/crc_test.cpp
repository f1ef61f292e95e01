// SPDX-License-Identifier: Apache-2.0
#include "lib/core/crc.hpp"

#include <doctest/doctest.h>
#include <zlib.h>

#include <random>
#include <vector>

using namespace tpx;

namespace {

// The textbook division, bit by bit.
template <class Word, Word Polynomial>
Word divided(std::span<const std::byte> bytes) {
    Word remainder = 0;
    for (std::byte byte : bytes) {
        remainder ^= static_cast<Word>(byte);
        for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ (remainder & 1 ? Polynomial : 0);
    }
    return remainder;
}

std::vector<std::byte> random_bytes(std::mt19937_64& random, std::size_t count) {
    std::vector<std::byte> bytes(count);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
}

}  // namespace

static_assert(Crc32::power(0) == 0x80000000);
static_assert(Crc32::power(1) == 0x40000000);
static_assert(Crc32::power(32) == 0xedb88320);
static_assert(Crc64::power(64) == 0xc96c5795d7870f42);
static_assert(Crc64::times(Crc64::power(1000), Crc64::power(234567)) == Crc64::power(235567));

TEST_CASE("a CRC is the remainder of a division") {
    std::mt19937_64 random{1};
    for (std::size_t size : {0, 1, 7, 8, 15, 16, 17, 63, 128, 255, 1000, 5000}) {
        CAPTURE(size);
        const auto bytes = random_bytes(random, size);
        CHECK(Crc64::of(bytes) == divided<std::uint64_t, 0xc96c5795d7870f42>(bytes));
        CHECK(Crc32::of(bytes) == divided<std::uint32_t, 0xedb88320>(bytes));
    }
}

TEST_CASE("the CRC of a message is the sum of the shifted CRCs of its parts") {
    std::mt19937_64 random{2};
    for (int round = 0; round < 50; ++round) {
        const auto bytes = random_bytes(random, random() % 3000);
        std::uint64_t crc64 = 0;
        std::uint32_t crc32 = 0;
        for (std::size_t begin = 0; begin < bytes.size();) {
            const std::size_t size = std::min<std::size_t>(bytes.size() - begin, 1 + random() % 500);
            const std::span part{bytes.data() + begin, size};
            crc64 ^= Crc64::shift(Crc64::of(part), bytes.size() - begin - size);
            crc32 ^= Crc32::shift(Crc32::of(part), bytes.size() - begin - size);
            begin += size;
        }
        CHECK(crc64 == Crc64::of(bytes));
        CHECK(crc32 == Crc32::of(bytes));
    }
}

TEST_CASE("the CRC of zip follows from the linear one") {
    std::mt19937_64 random{3};
    for (std::size_t size : {0, 1, 100, 12345}) {
        const auto bytes = random_bytes(random, size);
        const auto expected = crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(size));
        CHECK(zip_crc(Crc32::of(bytes), size) == expected);
    }
}

TEST_CASE("shifts by huge distances compose") {
    const std::uint64_t far = (std::uint64_t{1} << 60) - 12345;
    CHECK(Crc64::shift(Crc64::shift(0x123456789abcdef, far), 777) == Crc64::shift(0x123456789abcdef, far + 777));
}

TEST_CASE("the fast product equals the simple one") {
    std::mt19937_64 random{5};
    for (int round = 0; round < 1000; ++round) {
        const std::uint64_t a = random(), b = random();
        CHECK(multiply(a, b) == Crc64::times(a, b));
    }
}

TEST_CASE("folding rows gives the CRC of the message that contains them") {
    std::mt19937_64 random{4};
    for (std::size_t length : {1, 2, 3, 4, 8, 15, 16, 17, 31, 32, 33, 100, 120, 128}) {
        CAPTURE(length);
        const std::size_t distance = length + random() % 50;
        const std::size_t stride = length + random() % 20;
        const std::size_t count = 1 + random() % 9;
        const auto memory = random_bytes(random, stride * count);
        std::vector<std::byte> message((count - 1) * distance + length);
        for (std::size_t row = 0; row < count; ++row)
            std::copy_n(memory.data() + row * stride, length, message.data() + row * distance);
        RowFold fold(length);
        fold.add(memory.data(), Index(stride), Index(count), RowFold::step(distance));
        CHECK(fold.crc() == Crc64::of(message));
    }
}
