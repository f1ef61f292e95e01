// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/belief.hpp"
#include "lib/model/step_time.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tpx {

/// One measured configuration of a job: what ran where, and how long a step took.
struct Run {
    ExecutionPlan plan;
    Allocation allocation;
    double batch = 1;              ///< samples of a step, of all replicas
    double seconds = 0;            ///< of a step
    std::optional<double> memory;  ///< bytes in use on the fullest GPU
    std::string label;             ///< names it in messages: "runs.csv:12"
};

/// For each run, the index of the first run of the same configuration: equal plan, batch, CPU threads and GPUs of each
/// host.
std::vector<std::size_t> configurations(std::span<const Run> runs);

/// The number of different configurations.
std::size_t count_configurations(std::span<const Run> runs);

/// The seconds that `parameters` predict for `run`.
double predicted_seconds(const Parameters& parameters, const ModelSize& model, const Run& run);

/// By how much the logarithm of the predicted seconds of `run` grows with the logarithm of each parameter.
Vector slope_of(const Vector& logarithms, const ModelSize& model, const Run& run);
Vector slope_of(const Parameters& parameters, const ModelSize& model, const Run& run, const Routes& routes);

}  // namespace tpx
