// SPDX-License-Identifier: Apache-2.0
#include "lib/core/sample_order.hpp"

#include "lib/core/splitmix.hpp"

#include <array>

namespace tpx {
namespace {

constexpr std::uint64_t rounds = 4;

/// A Feistel network: its round keys, and the number of bits of half a number.
struct Network {
    std::array<std::uint64_t, rounds> keys;
    int half_bits = 4;  ///< at least 4: smaller networks permute unevenly

    /// A permutation of the numbers below 4^half_bits.
    std::uint64_t permuted(std::uint64_t number) const {
        const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
        std::uint64_t left = number >> half_bits, right = number & mask;
        for (std::uint64_t key : keys) {
            const std::uint64_t next = left ^ (splitmix64(key + right) & mask);
            left = right;
            right = next;
        }
        return left << half_bits | right;
    }
};

Network network_of(const SampleOrder& order, std::uint64_t epoch) {
    Network network;
    const std::uint64_t base = splitmix64(splitmix64(order.seed) + epoch);
    for (std::uint64_t round = 0; round < rounds; ++round) network.keys[round] = splitmix64(base + round);
    while (Index{1} << 2 * network.half_bits < order.samples) ++network.half_bits;
    return network;
}

}  // namespace

Index SampleOrder::sample_at(Index position) const {
    const Network network = network_of(*this, static_cast<std::uint64_t>(position / samples));
    // The network permutes fewer than 4 numbers per sample (or 256 numbers in all), so that this loop takes few steps.
    auto number = static_cast<std::uint64_t>(position % samples);
    do number = network.permuted(number);
    while (number >= static_cast<std::uint64_t>(samples));
    return static_cast<Index>(number);
}

}  // namespace tpx
