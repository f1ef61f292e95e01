// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string_view>

namespace tpx::cli {

/// The range of numbers that an option accepts.
struct NumberLimits {
    double least = 0;
    double most = HUGE_VAL;
    bool above = false;  ///< whether `least` itself is excluded
};

/// A number within `limits`, such as "0.25" or "1e-3". Throws Error (usage) for anything else.
double parse_decimal(std::string_view text, const NumberLimits& limits);

/// The seconds of "90", "90s", "2min", "2m", "1h" or "30d". Throws Error (usage) for anything else, or when they are
/// not within `limits`.
double parse_duration(std::string_view text, const NumberLimits& limits);

/// A rate as parse_rate() reads it. Throws Error (usage) if it is less than `least`.
double parse_rate_above(std::string_view text, double least);

}  // namespace tpx::cli
