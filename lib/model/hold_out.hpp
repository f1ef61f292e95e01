// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/fit_count.hpp"
#include "lib/model/uncertainty.hpp"

#include <optional>
#include <span>
#include <vector>

namespace tpx {

/// How a fit to some runs predicts others that it has not seen.
struct HoldOutResult {
    std::vector<std::size_t> train;  ///< indices of the runs that were fitted
    std::vector<std::size_t> test;   ///< those of all others that count
    std::vector<double> errors;      ///< predicted / measured - 1 of each in `test`
    std::size_t covered = 0;         ///< of `test`, those inside their likely_seconds()
};

/// Fits all runs of `count` configurations among the `candidates` (indices into `runs`), and predicts each of `test`
/// that is of another configuration. The most informative ones are fitted, or a first one that `draw` picks and the
/// most informative ones beside it; no time outside the training set is looked at. `progress` counts suggestions and
/// fits; null: none are counted.
HoldOutResult hold_out(const ModelSize& model, std::span<const Run> runs, const Belief& prior,
                       std::vector<std::size_t> candidates, const std::vector<std::size_t>& test, int count,
                       std::optional<unsigned> draw = {}, FitCount* progress = nullptr);

/// hold_out() on all runs: what is not fitted is predicted.
HoldOutResult hold_out(const ModelSize& model, std::span<const Run> runs, const Belief& prior, int count,
                       std::optional<unsigned> draw = {}, FitCount* progress = nullptr);

/// hold_out() once for each placement (hosts in any order): no run on it is fitted, and all runs on it are predicted.
std::vector<HoldOutResult> leave_one_placement_out(const ModelSize& model, std::span<const Run> runs,
                                                   const Belief& prior, int count, std::optional<unsigned> draw = {});

}  // namespace tpx
