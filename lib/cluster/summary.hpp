// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/results.hpp"

#include <span>

namespace tpx {

/// The numbers of one policy. Times are seconds; a quantile is the value at position floor(q n) of n sorted ones. Times
/// and slowdowns are those of the jobs that finished, queueing that of the jobs that started.
struct SimulationSummary {
    std::size_t jobs = 0;
    std::size_t unfinished = 0;
    std::size_t started = 0;  ///< jobs that got GPUs at least once
    double mean_jct = 0;      ///< from arrival to finish
    double median_jct = 0;
    double p99_jct = 0;
    double mean_queueing = 0;  ///< from arrival to the first GPU
    double median_queueing = 0;
    double p99_queueing = 0;
    double makespan = 0;  ///< from the first arrival until the last GPU is given back
    double held = 0;      ///< share of all GPU-time until then that jobs had
    double worked = 0;    ///< share without GPUs that running jobs are about to have, or are about to give back
    double trained = 0;   ///< share in which GPUs trained
    int changes = 0;
    int stops = 0;
    double lost = 0;      ///< GPU-hours of jobs that held GPUs and trained with none
    double moved = 0;     ///< bytes, for changes and later starts, where their costs are planned
    double paused = 0;    ///< seconds that these took jobs, added up
    double slowdown = 0;  ///< mean of the time a job took / what it takes alone with all that it asks for
    double fairness = 0;  ///< Jain's index of the slowdowns: 1 when all are the same, 1/n when one suffers alone
    std::size_t deadlines = 0;
    std::size_t kept = 0;  ///< of the deadlines

    /// Times of the jobs of one class.
    struct Class {
        bool guaranteed = true;
        std::size_t jobs = 0;
        std::size_t finished = 0;
        std::size_t started = 0;
        double mean_jct = 0;
        double median_jct = 0;
        double p99_jct = 0;
        double mean_queueing = 0;
    };
    std::vector<Class> classes;  ///< guaranteed and best-effort jobs, if there are both
};

/// The value at position floor(q n) of the n `values` in order; 0 of none.
double quantile(std::vector<double> values, double q);

SimulationSummary summarize(const Cluster& cluster, std::span<const TraceJob> jobs, const SimulationResults& results);

}  // namespace tpx
