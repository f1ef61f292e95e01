// SPDX-License-Identifier: Apache-2.0
#include "lib/core/sample_order.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

using namespace tpx;

namespace {

std::uint64_t mixed(std::uint64_t z) {
    z += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/// An epoch by a direct implementation of tpx-data(5): follows the cycles of the network's whole permutation, and skips
/// numbers that are not samples.
std::vector<Index> naive_epoch(std::uint64_t count, std::uint64_t seed, std::uint64_t epoch) {
    int h = 4;
    while (std::pow(4.0, h) < static_cast<double>(count)) ++h;
    const std::uint64_t half = std::uint64_t{1} << h;
    std::vector<std::uint64_t> image(half * half);
    for (std::uint64_t x = 0; x < image.size(); ++x) {
        std::uint64_t left = x / half, right = x % half;
        for (std::uint64_t round = 0; round < 4; ++round) {
            const std::uint64_t key = mixed(mixed(mixed(seed) + epoch) + round);
            const std::uint64_t old = right;
            right = left ^ mixed(key + right) % half;
            left = old;
        }
        image[x] = left * half + right;
    }
    std::vector<Index> order;
    for (std::uint64_t x = 0; x < count; ++x) {
        std::uint64_t y = image[x];
        while (y >= count) y = image[y];
        order.push_back(static_cast<Index>(y));
    }
    return order;
}

std::vector<Index> epoch_of(const SampleOrder& order, Index epoch) {
    std::vector<Index> samples;
    for (Index k = 0; k < order.samples; ++k) samples.push_back(order.sample_at(epoch * order.samples + k));
    return samples;
}

}  // namespace

TEST_CASE("law: an epoch visits every sample once, in the order of the definition") {
    std::mt19937_64 random{7};
    for (int round = 0; round < 200; ++round) {
        const SampleOrder order{1 + static_cast<Index>(round < 70 ? round : random() % 3000), random()};
        const auto epoch = static_cast<Index>(random() % 1000);
        std::vector<Index> samples = epoch_of(order, epoch);
        REQUIRE(samples ==
                naive_epoch(static_cast<std::uint64_t>(order.samples), order.seed, static_cast<std::uint64_t>(epoch)));
        std::ranges::sort(samples);
        for (Index k = 0; k < order.samples; ++k) REQUIRE(samples[static_cast<std::size_t>(k)] == k);
    }
}

TEST_CASE("epochs and seeds have different orders, which spread samples evenly") {
    const SampleOrder order{1000, 1}, other{1000, 2};
    CHECK(epoch_of(order, 0) != epoch_of(order, 1));
    CHECK(epoch_of(order, 0) != epoch_of(other, 0));
    // Chi-squared test, with 9 degrees of freedom, of the places of a sample in 4,000 epochs; the probability of more
    // than 27.9 is 1 in 1,000.
    for (Index samples : {10, 12, 1000}) {
        std::vector<int> bins(10);
        const SampleOrder spread{samples, 5};
        for (Index epoch = 0; epoch < 4000; ++epoch) ++bins[spread.sample_at(epoch * samples + 3) * 10 / samples];
        double chi = 0;
        for (Index bin = 0; bin < 10; ++bin) {
            const double share = 400.0 * (samples == 12 ? (bin % 5 == 0 ? 2 : 1) * 10.0 / 12 : 1);
            chi +=
                (bins[static_cast<std::size_t>(bin)] - share) * (bins[static_cast<std::size_t>(bin)] - share) / share;
        }
        CHECK(chi < 27.9);
    }
}

TEST_CASE("the order is fixed, because other implementations and older checkpoints use it") {
    CHECK(epoch_of({10, 1234}, 0) == std::vector<Index>{9, 6, 3, 2, 4, 1, 5, 0, 7, 8});
    CHECK(epoch_of({10, 1234}, 1) == std::vector<Index>{9, 3, 0, 4, 6, 5, 7, 1, 8, 2});
    const SampleOrder order{1000000, std::uint64_t{0x7fffffffffffffff}};
    CHECK(order.sample_at(0) == 405562);
    CHECK(order.sample_at(999999) == 805772);
    CHECK(order.sample_at(1000000) == 765662);
    CHECK(order.sample_at(123456789) == 814670);
    const SampleOrder large{max_samples - 1, 99};
    for (Index position : {Index{0}, Index{1}, max_samples - 2, max_samples - 1}) {
        CHECK(large.sample_at(position) >= 0);
        CHECK(large.sample_at(position) < large.samples);
    }
}
