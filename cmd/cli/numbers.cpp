// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/numbers.hpp"

#include "lib/core/error.hpp"
#include "lib/core/units.hpp"

#include <charconv>
#include <cmath>
#include <system_error>

namespace tpx::cli {

double parse_decimal(std::string_view text, double least) {
    double number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code != std::errc{} || end != text.data() + text.size() || !std::isfinite(number) || number < least)
        throw usage_error("'{}' is not a number of at least {:g}", text, least);
    return number;
}

double parse_duration(std::string_view text) {
    double number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
    while (unit.starts_with(' ')) unit.remove_prefix(1);
    const double scale = unit.empty() || unit == "s" ? 1 : unit == "min" || unit == "m" ? 60 : unit == "h" ? 3600 : 0;
    if (code != std::errc{} || scale == 0 || !(number > 0) || !std::isfinite(number * scale))
        throw usage_error("'{}' is not a time such as 90s, 2min or 1h", text);
    return number * scale;
}

double parse_rate_above(std::string_view text, double least) {
    const double rate = parse_rate(text);
    if (rate < least) throw usage_error("{} is less than {}", text, format_rate(least));
    return rate;
}

}  // namespace tpx::cli
