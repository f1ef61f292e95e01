// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mutate.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

namespace tpx::fuzz {

namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t bound) { return bound == 0 ? 0 : random() % bound; }

// The most interesting damage is to headers and directories, which are at the beginning and end of a file.
std::size_t position(Random& random, const std::string& bytes) {
    const std::size_t near = std::min<std::size_t>(bytes.size(), 512);
    switch (below(random, 3)) {
        case 0:
            return below(random, near);
        case 1:
            return bytes.size() - 1 - below(random, near);
        default:
            return below(random, bytes.size());
    }
}

std::string block(Random& random, const std::string& bytes) {
    const std::size_t at = below(random, bytes.size());
    return bytes.substr(at, 1 + below(random, std::min<std::size_t>(bytes.size() - at, 64)));
}

void put_number(Random& random, std::string& bytes) {
    constexpr std::array<std::uint64_t, 10> limits{0,
                                                   1,
                                                   0x7f,
                                                   0xff,
                                                   0xffff,
                                                   0x7fffffff,
                                                   0xffffffff,
                                                   std::numeric_limits<std::int64_t>::max(),
                                                   std::uint64_t{1} << 63,
                                                   std::numeric_limits<std::uint64_t>::max()};
    const std::size_t width = std::size_t{1} << below(random, 4);
    if (bytes.size() < width) return;
    const std::size_t at = std::min(position(random, bytes), bytes.size() - width);
    std::uint64_t value = limits[below(random, limits.size())] + below(random, 3) - 1;
    for (std::size_t i = 0; i < width; ++i, value >>= 8) bytes[at + i] = static_cast<char>(value & 0xff);
}

void put_digit(Random& random, std::string& bytes) {
    const std::size_t at = bytes.find_first_of("0123456789", position(random, bytes));
    if (at == std::string::npos) return;
    constexpr std::array<const char*, 6> numbers{"0", "-1", "9", "18446744073709551616", "1e9", "9223372036854775807"};
    bytes.replace(at, 1, numbers[below(random, numbers.size())]);
}

void damage(Random& random, std::string& bytes, std::span<const std::string> corpus) {
    if (bytes.empty()) return;
    switch (below(random, 10)) {
        case 0:
        case 1:
            bytes[position(random, bytes)] ^= static_cast<char>(1 << below(random, 8));
            break;
        case 2:
            bytes[position(random, bytes)] = static_cast<char>(random());
            break;
        case 3:
        case 4:
            put_number(random, bytes);
            break;
        case 5:
            put_digit(random, bytes);
            break;
        case 6:
            bytes.erase(position(random, bytes), 1 + below(random, 32));
            break;
        case 7:
            bytes.insert(position(random, bytes), block(random, bytes));
            break;
        case 8: {
            const std::string& other = corpus[below(random, corpus.size())];
            const std::string part = other.empty() ? std::string{} : block(random, other);
            bytes.replace(position(random, bytes), part.size(), part);
            break;
        }
        default:
            bytes.resize(position(random, bytes));
            break;
    }
}

}  // namespace

std::string mutate(std::span<const std::string> corpus, std::mt19937_64& random) {
    std::string bytes = corpus[below(random, corpus.size())];
    for (std::size_t n = 1 + below(random, 8); n > 0; --n) damage(random, bytes, corpus);
    return bytes;
}

}  // namespace tpx::fuzz
