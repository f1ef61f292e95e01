// SPDX-License-Identifier: Apache-2.0
#include "lib/model/hold_out.hpp"

#include "lib/model/most_informative.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace tpx {

HoldOutResult hold_out(const ModelSize& model, std::span<const Run> runs, const Belief& prior,
                       std::vector<std::size_t> candidates, const std::vector<std::size_t>& test, int count,
                       std::optional<unsigned> draw, FitCount* progress) {
    HoldOutResult result;
    const std::vector<std::size_t> same = configurations(runs);
    const std::vector<std::size_t> all = candidates;
    std::set<std::size_t> chosen;
    std::erase_if(candidates, [&](std::size_t i) { return !chosen.insert(same[i]).second; });
    chosen.clear();
    if (candidates.empty()) return result;
    std::vector<Run> offered;
    for (const std::size_t i : candidates) offered.push_back(runs[i]);
    const auto take = [&](std::size_t candidate) {
        if (static_cast<int>(chosen.size()) == count || !chosen.insert(same[candidate]).second) return;
        std::ranges::copy_if(all, std::back_inserter(result.train),
                             [&](std::size_t i) { return same[i] == same[candidate]; });
    };
    Belief belief = prior;
    if (draw) {
        const std::size_t first = std::mt19937{*draw}() % candidates.size();
        learn(belief.covariance, slope_of(prior.mean, model, offered[first]), run_deviation * run_deviation);
        take(candidates[first]);
    }
    for (const Suggestion& suggestion : most_informative(model, offered, belief, count, progress))
        take(candidates[suggestion.candidate]);
    std::vector<Run> fitted;
    for (const std::size_t i : result.train) fitted.push_back(runs[i]);
    const Fit fit = fit_parameters(model, fitted, prior, fit_starts, progress);
    const Uncertainty uncertainty = uncertainty_of(fit, leave_one_out(model, fitted, prior, fit, progress));
    for (const std::size_t i : test) {
        if (chosen.contains(same[i])) continue;
        const SecondsRange range = likely_seconds(uncertainty, model, runs[i]);
        result.covered += range.low <= runs[i].seconds && runs[i].seconds <= range.high;
        result.test.push_back(i);
        result.errors.push_back(predicted_seconds(fit.parameters, model, runs[i]) / runs[i].seconds - 1);
    }
    return result;
}

HoldOutResult hold_out(const ModelSize& model, std::span<const Run> runs, const Belief& prior, int count,
                       std::optional<unsigned> draw, FitCount* progress) {
    std::vector<std::size_t> all(runs.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return hold_out(model, runs, prior, all, all, count, draw, progress);
}

std::vector<HoldOutResult> leave_one_placement_out(const ModelSize& model, std::span<const Run> runs,
                                                   const Belief& prior, int count, std::optional<unsigned> draw) {
    std::map<std::vector<int>, std::vector<std::size_t>> placements;
    for (std::size_t i = 0; i < runs.size(); ++i) {
        std::vector<int> gpus = runs[i].allocation.gpus;
        std::ranges::sort(gpus);
        placements[gpus].push_back(i);
    }
    std::vector<HoldOutResult> results;
    for (const auto& [placement, test] : placements) {
        std::vector<std::size_t> others;
        for (std::size_t i = 0; i < runs.size(); ++i)
            if (std::ranges::count(test, i) == 0) others.push_back(i);
        results.push_back(hold_out(model, runs, prior, others, test, count, draw));
    }
    return results;
}

}  // namespace tpx
