// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tpx {

/// The distance between successive states of SplitMix64 (Steele et al., OOPSLA 2014).
inline constexpr std::uint64_t splitmix_step = 0x9e3779b97f4a7c15;

/// The number that SplitMix64 returns in state `state`: a well-mixing bijection of 64-bit numbers.
constexpr std::uint64_t splitmix64(std::uint64_t state) {
    std::uint64_t z = state + splitmix_step;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

}  // namespace tpx
