// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/throughput_file.hpp"
#include "lib/model/fit_count.hpp"
#include "lib/model/run.hpp"
#include "lib/model/uncertainty.hpp"

#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::cli {

/// What the `runs` of a model teach beyond `prior` if they are too few for a fit.
Belief belief_without_fit(const ModelSize& model, std::span<const Run> runs, const Belief& prior);

/// Runs to measure next, and the error expected once each is measured.
using Suggestions = std::vector<std::pair<Run, double>>;

/// The `count` runs that improve predictions of `model` most; `runs` are measured already, `excluded` are techniques
/// that are not used, and `uncertainty` is that of predictions now. Throws Error if no plan fits into memory.
Suggestions suggest_runs(const formats::ThroughputModel& model, std::span<const Run> runs,
                         std::span<const std::string_view> excluded, const Uncertainty& uncertainty, int count,
                         FitCount* progress);

}  // namespace tpx::cli
