// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace tpx {

/// Summary of repeated measurements of one quantity.
struct MeasuredValue {
    double median = 0;  ///< 0: not measured
    double spread = 0;  ///< how far the values are apart, as a fraction of the median

    bool operator==(const MeasuredValue&) const = default;
};

/// The median and the interquartile range of the finite `values`; zeros if there are none.
MeasuredValue summarize(std::vector<double> values);

/// Summarizes several visits, each a group of measurements made at about the same time: the median of their medians.
/// The spread is the median spread of the visits or, if larger, the range of their medians, because a machine may be
/// slow for a while. Visits without measurements are ignored.
MeasuredValue combine(std::span<const MeasuredValue> visits);

/// Whether `a` and `b` may be measurements of the same quantity: their medians differ by at most `least` or both
/// spreads together, whichever is more, and by at most `most`, each as a fraction of the larger median.
bool agree(const MeasuredValue& a, const MeasuredValue& b, double least, double most);

}  // namespace tpx
