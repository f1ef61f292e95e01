// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/memory_use.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// A job whose plan is to be chosen, and the machines it may have.
struct Job {
    ModelSize model;
    Parameters parameters;
    double batch = 1;  ///< samples of a step
    MemoryCalibration memory;
    std::optional<double> gpu_memory;   ///< bytes of a GPU; not given: enough
    std::optional<double> host_memory;  ///< bytes of a host; not given: enough
    double gpus_per_nic = 1;
    double cpus = 4;                         ///< threads for each GPU
    std::vector<std::string_view> excluded;  ///< of `techniques`: plans that use any of them are not possible
};

/// A plan, what it takes, and whether it fits.
struct EvaluatedPlan {
    ExecutionPlan plan;
    StepTime time;
    MemoryUse memory;
    bool fits = false;

    double throughput(double batch) const { return batch / time.total(); }
};

/// What `plan` would take on `allocation`. Throws Error (usage) when the GPUs do not agree.
EvaluatedPlan evaluate_plan(const Job& job, const ExecutionPlan& plan, const Allocation& allocation);

/// Why `job`'s model cannot be cut so, in words; empty if it can: tp divides heads and stages divide layers, replicas
/// have equally many samples, micro-batches and passes divide those; ZeRO 2, 3 and offloading go without pipelines,
/// offloading without tp.
std::string obstacle(const Job& job, const ExecutionPlan& plan);

/// Whether there is no obstacle().
bool possible(const Job& job, const ExecutionPlan& plan);

/// All possible plans without excluded techniques for `gpus` GPUs, tensor groups of at most `per_host`, with full,
/// selective and no recomputation, every ZeRO stage, and powers of two (and all samples) as numbers of micro-batches
/// and passes.
std::vector<ExecutionPlan> possible_plans(const Job& job, int gpus, int per_host);

/// All possible plans on `allocation`, whether they fit or not, fastest first; of equal ones the one with the shorter
/// text.
std::vector<EvaluatedPlan> evaluated_plans(const Job& job, const Allocation& allocation);

/// Those of evaluated_plans() that fit.
std::vector<EvaluatedPlan> best_plans(const Job& job, const Allocation& allocation);

/// One point of a sensitivity curve.
struct CurvePoint {
    int gpus = 0;
    std::optional<EvaluatedPlan> best;     ///< with exactly so many GPUs; nothing: no plan is possible or fits
    bool is_possible = false;              ///< a plan is possible, whether it fits into memory or not
    double throughput = 0;                 ///< samples per second with at most so many
    std::optional<EvaluatedPlan> fastest;  ///< plan with at most `gpus` GPUs
    int used = 0;                          ///< GPUs that `fastest` uses
    double slope = 0;                      ///< by how much the throughput grows with the next GPU
};

/// The best throughput with `first` up to `last` GPUs, hosts of `per_host` filled in order.
std::vector<CurvePoint> sensitivity_curve(const Job& job, int first, int last, int per_host);

/// `gpus` GPUs on as few hosts of `per_host` as will do.
Allocation packed(const Job& job, int gpus, int per_host);

}  // namespace tpx
