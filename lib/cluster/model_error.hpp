// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/job.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// The same jobs, of which policies believe wrong step times: each parameter of a job's throughput model is off by a
/// factor whose logarithm is normal with this `deviation`. The jobs train at the rates of the right parameters. Jobs
/// that share a model share the wrong one. Jobs without a throughput model stay as they are.
std::vector<TraceJob> with_model_error(std::span<const TraceJob> jobs, double deviation, std::uint64_t seed);

/// Whether the step times of any of `jobs` are predicted by a throughput model.
bool any_predicted(std::span<const TraceJob> jobs);

}  // namespace tpx
