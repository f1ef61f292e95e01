// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

namespace tpx {

/// Random numbers that are the same on every machine: SplitMix64 (Steele et al., OOPSLA 2014).
class Random {
public:
    explicit Random(std::uint64_t seed) : state_{seed} {}

    std::uint64_t next() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }
    /// From 0 up to, but not including, 1.
    double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
    /// With this mean, as times between independent events have.
    double exponential(double mean) { return -std::log1p(-unit()) * mean; }

private:
    std::uint64_t state_;
};

}  // namespace tpx
