// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

namespace tpx::cli {

/// How the times of a column of a table are written: all in one unit, which suits the largest, or is the next smaller
/// one if the smallest would be less than a tenth; with as many decimals, up to three, as give the largest four digits
/// and the smallest three, if a column of 12 characters has room for them.
class TimeColumn {
public:
    /// `smallest` and `largest` in seconds; times of 0 do not count.
    TimeColumn(double smallest, double largest);

    /// "98.33 min"
    std::string text(double seconds) const;

private:
    double size_ = 1;  // seconds of a unit
    std::string_view unit_ = "s";
    int decimals_ = 0;
};

/// The column of what `seconds_of` returns for each of `rows`.
template <class Row, class SecondsOf>
TimeColumn time_column(std::span<const Row> rows, SecondsOf seconds_of) {
    double smallest = 0, largest = 0;
    for (const Row& row : rows) {
        const double seconds = seconds_of(row);
        largest = std::max(largest, seconds);
        if (seconds > 0) smallest = smallest > 0 ? std::min(smallest, seconds) : seconds;
    }
    return {smallest, largest};
}

}  // namespace tpx::cli
