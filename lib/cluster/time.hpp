// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace tpx {

/// Microseconds since the beginning of a trace. Whole numbers, so that sums are exact and the same on every machine.
using Time = std::int64_t;

inline constexpr Time second = 1'000'000;
inline constexpr Time never = std::numeric_limits<Time>::max();

/// The nearest Time; `seconds` must be below 9e12 in magnitude.
inline Time time_of(double seconds) { return std::llround(seconds * 1e6); }

inline double seconds_of(Time time) { return static_cast<double>(time) / 1e6; }

}  // namespace tpx
