// SPDX-License-Identifier: Apache-2.0
#include "cmd/profile/suggest_runs.hpp"

#include "lib/core/error.hpp"
#include "lib/model/evaluate_plan.hpp"
#include "lib/model/most_informative.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace tpx::cli {
namespace {

// Plans that fit into memory, on the placements of the runs and on 1, 2, 4, ... GPUs of hosts like the largest one of
// the runs.
std::vector<Run> candidates(const formats::ThroughputModel& model, std::span<const Run> runs,
                            std::span<const std::string_view> excluded) {
    constexpr int usual_host = 8;
    Job job = formats::job_of(model);
    job.excluded.assign(excluded.begin(), excluded.end());
    if (!model.batch) job.batch = runs.empty() ? 1 : runs[0].batch;
    std::set<std::vector<int>> placements;
    for (const Run& run : runs) placements.insert(run.allocation.gpus);
    int per_host = runs.empty() ? usual_host : 1;
    for (const Run& run : runs) per_host = std::max(per_host, std::ranges::max(run.allocation.gpus));
    for (int gpus = 1; gpus <= 16; gpus *= 2) placements.insert(packed(job, gpus, per_host).gpus);
    std::vector<Run> all;
    for (const std::vector<int>& gpus : placements) {
        const Allocation allocation{gpus, job.gpus_per_nic, job.cpus};
        for (const EvaluatedPlan& judged : best_plans(job, allocation)) {
            Run run;
            run.plan = judged.plan;
            run.allocation = allocation;
            run.batch = job.batch;
            all.push_back(std::move(run));
        }
    }
    return all;
}

}  // namespace

Belief belief_without_fit(const ModelSize& model, std::span<const Run> runs, const Belief& prior) {
    Belief belief = prior;
    const std::vector<std::size_t> same = configurations(runs);
    for (std::size_t i = 0; i < runs.size(); ++i)
        if (same[i] == i)
            learn(belief.covariance, slope_of(belief.mean, model, runs[i]), run_deviation * run_deviation);
    return belief;
}

Suggestions suggest_runs(const formats::ThroughputModel& model, std::span<const Run> runs,
                         std::span<const std::string_view> excluded, const Uncertainty& uncertainty, int count,
                         FitCount* progress) {
    const std::vector<Run> offered = candidates(model, runs, excluded);
    if (offered.empty())
        throw failure("no plan{} fits into the memory of the GPUs, so there is nothing to suggest",
                      excluded.empty() ? "" : fmt::format(" without {}", fmt::join(excluded, ", ")));
    Suggestions suggestions;
    for (const Suggestion& suggestion : most_informative(model.size, offered, uncertainty.belief, count, progress))
        suggestions.emplace_back(offered[suggestion.candidate], expected_error(uncertainty.scale, suggestion.variance));
    return suggestions;
}

}  // namespace tpx::cli
