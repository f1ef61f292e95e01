// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace tpx::cli {

/// A number of at least `least`, such as "0.25" or "1e-3". Throws Error (usage) for anything else.
double parse_decimal(std::string_view text, double least);

/// The seconds of "90", "90s", "2min", "2m" or "1h". Throws Error (usage) for anything else, or when they are not
/// positive and finite.
double parse_duration(std::string_view text);

/// A rate as parse_rate() reads it. Throws Error (usage) if it is less than `least`.
double parse_rate_above(std::string_view text, double least);

}  // namespace tpx::cli
