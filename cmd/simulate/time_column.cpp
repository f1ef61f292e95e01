// SPDX-License-Identifier: Apache-2.0
#include "cmd/simulate/time_column.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <tuple>
#include <utility>

namespace tpx::cli {

TimeColumn::TimeColumn(double smallest, double largest) {
    using Unit = std::pair<double, std::string_view>;
    static constexpr std::array units{Unit{1, "s"}, Unit{60, "min"}, Unit{3600, "h"}};
    constexpr double most_seconds = 119.5, most_minutes = 7200, least = 0.1;
    std::size_t unit = largest < most_seconds ? 0 : largest < most_minutes ? 1 : 2;
    if (unit > 0 && smallest > 0 && smallest < least * units[unit].first) --unit;
    std::tie(size_, unit_) = units[unit];
    const auto digits_before = [&](double seconds) {
        return seconds > 0 ? 1 + static_cast<int>(std::floor(std::log10(seconds / size_))) : 1;
    };
    constexpr int column = 12;
    const int widest =
        column - 2 - static_cast<int>(unit_.size());  // digits that fit with a point, a space and the unit
    const int wanted = std::clamp(std::max(4 - digits_before(largest), 3 - digits_before(smallest)), 0, 3);
    decimals_ = std::clamp(widest - digits_before(largest), 0, wanted);
}

std::string TimeColumn::text(double seconds) const {
    return fmt::format("{:.{}f} {}", seconds / size_, decimals_, unit_);
}

}  // namespace tpx::cli
