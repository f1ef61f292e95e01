// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/hosts.hpp"
#include "lib/layout/layout.hpp"
#include "lib/model/step_time.hpp"

#include <span>
#include <string>
#include <vector>

namespace tpx {

/// A step's time, and what had to be assumed for it, in words: "GPUs at 70 Tflop/s". Good for comparing layouts.
struct StepEstimate {
    StepTime time;
    std::vector<std::string> assumed;
};

/// The plan that a layout stands for: replicas are cut into micro-batches of one sample where there is a pipeline;
/// fsdp is ZeRO stage 3; ep and etp change nothing.
ExecutionPlan execution_plan_of(const Layout& layout, double batch);

/// The GPUs that `ranks` ranks have on `hosts` if blocks are placed where they were cut; see cut_blocks(), also for
/// `group`. A host has one NIC for each of its rails. Throws Error (usage) when there are too few GPUs.
Allocation allocation_of(std::span<const Host> hosts, int ranks, int group = 1);

/// The time of a step of `batch` samples of `model` in `layout` on `hosts`, before any run was seen: the parameters are
/// prior_parameters(), NICs are as `hosts` or `default_rates` say. Pipelines have the fastest of all, half, a quarter,
/// ... of the micro-batches of execution_plan_of(). Throws Error (usage) when the hosts are too few.
StepEstimate estimate_step(const ModelSize& model, const Layout& layout, std::span<const Host> hosts, double batch);

/// The same with the parameters that were fitted to runs; nothing is assumed.
StepEstimate estimate_step(const ModelSize& model, const Layout& layout, std::span<const Host> hosts, double batch,
                           const Parameters& fitted);

}  // namespace tpx
