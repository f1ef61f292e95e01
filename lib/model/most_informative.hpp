// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/fit_count.hpp"
#include "lib/model/run.hpp"

#include <span>
#include <vector>

namespace tpx {

/// One candidate worth measuring, and what it would do.
struct Suggestion {
    std::size_t candidate = 0;
    double variance = 0;  ///< mean over the candidates of the predicted logarithms', once it and those before are seen
};

/// The `wanted` candidates that would teach the most, best first: each makes the mean variance of the predicted
/// logarithms of all candidates' times least, given `belief` and those chosen before it. Times of candidates are not
/// looked at. `count` counts the suggestions; null: none are counted.
std::vector<Suggestion> most_informative(const ModelSize& model, std::span<const Run> candidates, Belief belief,
                                         int wanted, FitCount* count = nullptr);

}  // namespace tpx
