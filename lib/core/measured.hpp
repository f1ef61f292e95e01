// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace tpx {

/// What repeated measurements of one thing come to.
struct Measured {
    double median = 0;  ///< 0: not measured
    double spread = 0;  ///< how far they lie apart, as a share of the median

    bool operator==(const Measured&) const = default;
};

/// The median of those of `values` that are finite, and the distance of their quartiles; zeros for none.
Measured summarise(std::vector<double> values);

/// What several visits to one thing come to, each some measurements at about one time: the median of their medians. The
/// spread is that of the typical visit, or how far the medians of the visits lie apart if that is more, because a
/// machine may be slow for a while. Visits that measured nothing do not count.
Measured combine(std::span<const Measured> visits);

/// Whether `a` and `b` can be measurements of the same: they differ by at most `least`, or by both spreads together, as
/// a share of the larger; never by more than `most`.
bool agree(const Measured& a, const Measured& b, double least, double most);

}  // namespace tpx
