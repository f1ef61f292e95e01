// SPDX-License-Identifier: Apache-2.0
#include "lib/model/fit.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace tpx {
namespace {

// Up to so many configurations, a wrong one can pull the first maximum that is found away from all others.
constexpr std::size_t few_runs = 20;

// One damped step from `at`; false when none goes down.
bool step_down(const Posterior& posterior, Vector& at, double& cost, double& damping) {
    Matrix matrix;
    Vector downhill;
    posterior.linearize(at, matrix, downhill);
    for (int attempt = 0; attempt < 12; ++attempt) {
        Matrix damped = matrix;
        for (int i = 0; i < parameter_count; ++i) damped[i][i] *= 1 + damping;
        const Vector step = inverse(damped) * downhill;
        Vector next;
        for (int i = 0; i < parameter_count; ++i) next[i] = at[i] + std::clamp(step[i], -1.0, 1.0);
        const double reached = posterior.cost(next);
        if (reached < cost) {
            const bool worth = cost - reached > 1e-7 * cost;
            at = next;
            cost = reached;
            damping = std::max(damping / 5, 1e-9);
            return worth;
        }
        damping *= 4;
    }
    return false;
}

Vector descend(const Posterior& posterior, Vector at, double& cost) {
    cost = posterior.cost(at);
    double damping = 1e-2;
    for (int i = 0; i < 60 && step_down(posterior, at, cost, damping); ++i) {
    }
    return at;
}

// A maximum of the posterior, the mass around it, and which runs are wrong there.
struct Maximum {
    Vector at{};
    double mass_cost = 0;
    std::vector<bool> wrong;
};

// An average that is this much less likely than the best maximum is between maxima rather than near any of them.
constexpr double largest_loss = 10;

// Of a maximum that is so flat that rounding hides its width.
constexpr double flat_mass_cost = 1e300;

// For each set of wrong runs, the maximum with the most mass around it. Where a single run is all that is known of a
// parameter, nothing says for sure whether it is wrong; the average over both cases is then the safest prediction.
class Maxima {
public:
    explicit Maxima(const Posterior& posterior) : posterior_{posterior} {}

    void search(const Vector& from) {
        double cost = 0;
        Maximum found{descend(posterior_, from, cost), 0, {}};
        found.mass_cost = posterior_.mass_cost(found.at);
        if (!std::isfinite(found.mass_cost)) found.mass_cost = flat_mass_cost;
        for (const double weight : posterior_.weights(found.at)) found.wrong.push_back(weight < 0.5);
        const auto same = std::ranges::find(found_, found.wrong, &Maximum::wrong);
        if (same == found_.end())
            found_.push_back(std::move(found));
        else if (found.mass_cost < same->mass_cost)
            *same = std::move(found);
    }

    // The mean and covariance of the posterior as a mixture of normal distributions, one for each maximum.
    Belief average() const {
        const Maximum& best = *std::ranges::min_element(found_, {}, &Maximum::mass_cost);
        double total = 0;
        for (const Maximum& each : found_) total += std::exp(best.mass_cost - each.mass_cost);
        Belief belief;
        for (const Maximum& each : found_)
            for (int i = 0; i < parameter_count; ++i)
                belief.mean[i] += std::exp(best.mass_cost - each.mass_cost) / total * each.at[i];
        if (posterior_.cost(belief.mean) > posterior_.cost(best.at) + largest_loss) belief.mean = best.at;
        for (const Maximum& each : found_) {
            const Matrix covariance = posterior_.covariance(each.at);
            const double share = std::exp(best.mass_cost - each.mass_cost) / total;
            for (int i = 0; i < parameter_count; ++i)
                for (int j = 0; j < parameter_count; ++j)
                    belief.covariance[i][j] +=
                        share * (covariance[i][j] + (each.at[i] - belief.mean[i]) * (each.at[j] - belief.mean[j]));
        }
        return belief;
    }

private:
    const Posterior& posterior_;
    std::vector<Maximum> found_;
};

// The maximum where errors are normal. Far from it all runs look wrong, so that searches begin there.
Vector normal_maximum(const ModelSize& model, std::span<const Run> runs, const Belief& prior, const Vector& from,
                      std::size_t without = Posterior::none) {
    double cost = 0;
    return descend(Posterior{model, runs, prior, Errors::normal, without}, from, cost);
}

Fit finish(const Posterior& posterior, const ModelSize& model, std::span<const Run> runs, const Belief& belief) {
    Fit fit;
    fit.parameters = from_logarithms(belief.mean);
    fit.cost = posterior.cost(belief.mean);
    fit.belief = belief;
    fit.weights = posterior.weights(belief.mean);
    fit.shares = posterior.shares();
    fit.left_out_variances = posterior.left_out_variances(belief.mean, posterior.covariance(belief.mean));
    for (const Run& run : runs) fit.errors.push_back(predicted_seconds(fit.parameters, model, run) / run.seconds - 1);
    return fit;
}

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace

Fit fit_parameters(const ModelSize& model, std::span<const Run> runs, const Belief& prior, int starts) {
    const Posterior posterior{model, runs, prior, Errors::some_wrong};
    std::mt19937 random{1};
    std::normal_distribution<double> normal;
    Maxima maxima{posterior};
    maxima.search(normal_maximum(model, runs, prior, prior.mean));
    for (int start = 1; start < starts; ++start) {
        Vector from = prior.mean;
        for (int i = 0; i < parameter_count; ++i) from[i] += normal(random) * std::sqrt(prior.covariance[i][i]);
        maxima.search(normal_maximum(model, runs, prior, from));
    }
    const std::vector<std::size_t> same = configurations(runs);
    if (starts > 1 && count_configurations(runs) <= few_runs) {  // each may be the one that contradicts the others
        for (std::size_t i = 0; i < runs.size(); ++i)
            if (same[i] == i) maxima.search(normal_maximum(model, runs, prior, prior.mean, i));
    }
    return finish(posterior, model, runs, maxima.average());
}

std::vector<double> leave_one_out(const ModelSize& model, std::span<const Run> runs, const Belief& prior,
                                  const Fit& fit) {
    const std::vector<std::size_t> same = configurations(runs);
    std::vector<double> predicted, errors;
    for (std::size_t i = 0; i < runs.size(); ++i) {
        if (same[i] != i) {
            predicted.push_back(predicted[same[i]]);
        } else {
            double cost = 0;
            const Vector reached = descend(Posterior{model, runs, prior, Errors::some_wrong, i}, fit.belief.mean, cost);
            predicted.push_back(predicted_seconds(from_logarithms(reached), model, runs[i]));
        }
        errors.push_back(predicted[i] / runs[i].seconds - 1);
    }
    return errors;
}

std::vector<Certainty> certainties(const Belief& prior, const Fit& fit) {
    std::vector<Certainty> result;
    for (int i = 0; i < parameter_count; ++i) {
        const ParameterInfo& info = parameter_infos()[i];
        const double before = prior.covariance[i][i], after = std::max(0.0, fit.belief.covariance[i][i]);
        const double reach = 1.645 * std::sqrt(after);
        const double center = fit.belief.mean[i];
        result.push_back({info.least + std::exp(center - reach), info.least + std::exp(center + reach),
                          std::clamp(1 - after / before, 0.0, 1.0)});
    }
    return result;
}

std::vector<std::size_t> outliers(const ModelSize& model, std::span<const Run> runs, const Belief& prior) {
    std::vector<Run> kept{runs.begin(), runs.end()};
    std::vector<std::size_t> places(runs.size()), found;
    std::iota(places.begin(), places.end(), std::size_t{0});
    while (kept.size() > 3 && found.size() < runs.size() / 4) {
        const Fit fit = fit_parameters(model, kept, prior, 2);
        std::vector<double> magnitudes = leave_one_out(model, kept, prior, fit);
        for (double& error : magnitudes) error = std::abs(error);
        const auto worst = std::ranges::max_element(magnitudes) - magnitudes.begin();
        if (magnitudes[worst] <= std::max(0.1, 4 * 1.4826 * median(magnitudes))) break;
        found.push_back(places[worst]);
        places.erase(places.begin() + worst);
        kept.erase(kept.begin() + worst);
    }
    std::ranges::sort(found);
    return found;
}

double mean_magnitude(std::span<const double> values) {
    double sum = 0;
    for (const double value : values) sum += std::abs(value);
    return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

}  // namespace tpx
