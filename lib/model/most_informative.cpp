// SPDX-License-Identifier: Apache-2.0
#include "lib/model/most_informative.hpp"

#include "lib/model/fit.hpp"

#include <algorithm>

namespace tpx {
namespace {

double mean_variance(std::span<const Vector> slopes, const Matrix& covariance) {
    double sum = 0;
    for (const Vector& slope : slopes) sum += dot(slope, covariance * slope);
    return sum / static_cast<double>(slopes.size());
}

// The candidate after which the mean variance is least; `chosen` are left out.
std::size_t best_next(std::span<const Vector> slopes, const Matrix& covariance, const std::vector<bool>& chosen) {
    Matrix moments{};  // of all slopes, so that the gain of a candidate is one product
    for (const Vector& slope : slopes)
        for (int i = 0; i < parameter_count; ++i)
            for (int j = 0; j < parameter_count; ++j) moments[i][j] += slope[i] * slope[j];
    std::size_t best = slopes.size();
    double most = -1;
    for (std::size_t i = 0; i < slopes.size(); ++i) {
        if (chosen[i]) continue;
        const Vector gain = covariance * slopes[i];
        const double reduction = dot(gain, moments * gain) / (run_deviation * run_deviation + dot(slopes[i], gain));
        if (reduction > most) {
            most = reduction;
            best = i;
        }
    }
    return best;
}

}  // namespace

std::vector<Suggestion> most_informative(const ModelSize& model, std::span<const Run> candidates, Belief belief,
                                         int wanted, FitCount* count) {
    std::vector<Vector> slopes;
    for (const Run& run : candidates) slopes.push_back(slope_of(belief.mean, model, run));
    std::vector<bool> chosen(candidates.size());
    std::vector<Suggestion> suggestions;
    if (count) count->expect(std::min<std::size_t>(static_cast<std::size_t>(wanted), candidates.size()));
    while (static_cast<int>(suggestions.size()) < wanted && suggestions.size() < candidates.size()) {
        const std::size_t next = best_next(slopes, belief.covariance, chosen);
        chosen[next] = true;
        learn(belief.covariance, slopes[next], run_deviation * run_deviation);
        suggestions.push_back({next, mean_variance(slopes, belief.covariance)});
        if (count) count->end_one();
    }
    return suggestions;
}

}  // namespace tpx
