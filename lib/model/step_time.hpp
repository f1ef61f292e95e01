// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/parameters.hpp"
#include "lib/model/routes.hpp"

namespace tpx {

/// The seconds of one training step, in parts that add up: communication counts only where nothing hides it.
struct StepTime {
    double forward = 0;
    double recompute = 0;
    double backward = 0;
    double gradients = 0;  ///< exchange of gradients, and of weights where ZeRO shares them
    double tensor = 0;     ///< all-reduces of tensor parallelism
    double pipeline = 0;   ///< activations from stage to stage; bubbles count as forward and backward
    double optimizer = 0;
    double offload = 0;   ///< copies between GPU and host
    double constant = 0;  ///< of each pass and, with data parallelism alone, of each further host

    double total() const {
        return forward + recompute + backward + gradients + tensor + pipeline + optimizer + offload + constant;
    }
};

/// The time of a step of `model` with `batch` samples under `plan`, whose routes are `routes` and which has `cpus`
/// threads a GPU. Allocates nothing. tpx-throughput(5) has the formulas and where they come from.
StepTime step_time(const Parameters& parameters, const ModelSize& model, double batch, const ExecutionPlan& plan,
                   const Routes& routes, double cpus);

/// (x^k + y^k)^(1/k), for k >= 1: from the sum (k = 1, nothing overlaps) to the larger one (k large, all overlaps).
double overlap(double x, double y, double k);

}  // namespace tpx
