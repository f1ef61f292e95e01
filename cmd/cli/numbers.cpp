// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/numbers.hpp"

#include "lib/core/error.hpp"
#include "lib/core/units.hpp"

#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

namespace tpx::cli {

namespace {

bool is_within(double number, const NumberLimits& limits) {
    return std::isfinite(number) && number <= limits.most &&
           (limits.above ? number > limits.least : number >= limits.least);
}

}  // namespace

double parse_decimal(std::string_view text, const NumberLimits& limits) {
    double number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code == std::errc{} && end == text.data() + text.size() && is_within(number, limits)) return number;
    if (limits.above) throw usage_error("'{}' is not above {:g} and at most {:g}", text, limits.least, limits.most);
    if (std::isfinite(limits.most))
        throw usage_error("'{}' is not a number from {:g} to {:g}", text, limits.least, limits.most);
    throw usage_error("'{}' is not a number of at least {:g}", text, limits.least);
}

double parse_duration(std::string_view text, const NumberLimits& limits) {
    double number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
    while (unit.starts_with(' ')) unit.remove_prefix(1);
    double scale = 0;
    for (const auto& [name, seconds] :
         {std::pair{"", 1.0}, {"s", 1.0}, {"m", 60.0}, {"min", 60.0}, {"h", 3600.0}, {"d", 86400.0}})
        if (unit == name) scale = seconds;
    const double seconds = number * scale;
    if (code != std::errc{} || scale == 0 || !(number >= 0) || !std::isfinite(seconds) ||
        (limits.above && seconds == 0))
        throw usage_error("'{}' is not a time such as 90s, 2min or 1h", text);
    if (seconds < limits.least) throw usage_error("'{}' is less than {:g} s", text, limits.least);
    if (seconds > limits.most) throw usage_error("'{}' is more than {:g} s", text, limits.most);
    return seconds;
}

double parse_rate_above(std::string_view text, double least) {
    const double rate = parse_rate(text);
    if (rate < least) throw usage_error("{} is less than {}", text, format_rate(least));
    return rate;
}

}  // namespace tpx::cli
