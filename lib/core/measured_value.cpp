// SPDX-License-Identifier: Apache-2.0
#include "lib/core/measured_value.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tpx {

MeasuredValue summarize(std::vector<double> values) {
    std::erase_if(values, [](double value) { return !std::isfinite(value); });
    if (values.empty()) return {};
    std::ranges::sort(values);
    const auto at = [&](double share) {
        const double place = share * static_cast<double>(values.size() - 1);
        const auto below = static_cast<std::size_t>(place);
        const double rest = place - static_cast<double>(below);
        return values[below] + rest * (values[std::min(below + 1, values.size() - 1)] - values[below]);
    };
    const double median = at(0.5);
    return {median, median > 0 ? (at(0.75) - at(0.25)) / median : 0};
}

MeasuredValue combine(std::span<const MeasuredValue> visits) {
    std::vector<double> medians, spreads;
    for (const MeasuredValue& visit : visits) {
        if (!(visit.median > 0) || !std::isfinite(visit.median)) continue;
        medians.push_back(visit.median);
        spreads.push_back(visit.spread);
    }
    if (medians.empty()) return {};
    const auto [least, most] = std::ranges::minmax(medians);
    const double median = summarize(medians).median;
    return {median, std::max(summarize(spreads).median, (most - least) / median)};
}

bool agree(const MeasuredValue& a, const MeasuredValue& b, double least, double most) {
    const double allowed = std::min(std::max(least, a.spread + b.spread), most);
    return std::abs(a.median - b.median) <= allowed * std::max(a.median, b.median);
}

}  // namespace tpx
