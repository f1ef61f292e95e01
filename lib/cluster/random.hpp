// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/splitmix.hpp"

#include <cmath>
#include <cstdint>

namespace tpx {

/// Random numbers that are the same on every machine: SplitMix64 (Steele et al., OOPSLA 2014).
class Random {
public:
    explicit Random(std::uint64_t seed) : state_{seed} {}

    std::uint64_t next() {
        const std::uint64_t number = splitmix64(state_);
        state_ += splitmix_step;
        return number;
    }
    /// From 0 up to, but not including, 1.
    double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
    /// With this mean, as times between independent events have.
    double exponential(double mean) { return -std::log1p(-unit()) * mean; }

private:
    std::uint64_t state_;
};

}  // namespace tpx
