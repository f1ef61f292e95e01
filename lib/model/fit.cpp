// SPDX-License-Identifier: Apache-2.0
#include "lib/model/fit.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace tpx {
namespace {

// The sum of squares that is made small, with the routes of all runs at hand.
class Problem {
public:
    Problem(const ModelSize& model, std::span<const Run> runs, const Belief& prior)
        : model_{model}, runs_{runs}, prior_{prior}, precision_{inverse(prior.covariance)} {
        for (const Run& run : runs) routes_.push_back(routes_of(run.plan, run.allocation));
    }

    double log_time(const Parameters& is, std::size_t i) const {
        const Run& run = runs_[i];
        return std::log(step_time(is, model_, run.batch, run.plan, routes_[i], run.allocation.cpus).total());
    }

    double cost(const Vector& at) const {
        const Parameters is = from_logarithms(at);
        double sum = 0;
        for (std::size_t i = 0; i < runs_.size(); ++i) {
            const double off = (log_time(is, i) - std::log(runs_[i].seconds)) / run_deviation;
            sum += off * off;
        }
        const Vector moved = away(at);
        return (sum + dot(moved, precision_ * moved)) / 2;
    }

    // Gauss-Newton's matrix and the downhill gradient.
    void linearise(const Vector& at, Matrix& matrix, Vector& downhill) const {
        matrix = precision_;
        downhill = precision_ * away(at);
        for (double& value : downhill) value = -value;
        const Parameters is = from_logarithms(at);
        for (std::size_t i = 0; i < runs_.size(); ++i) {
            const Vector slope = slope_of(is, model_, runs_[i], routes_[i]);
            const double off = std::log(runs_[i].seconds) - log_time(is, i);
            for (int j = 0; j < parameter_count; ++j) {
                const double weighted = slope[j] / (run_deviation * run_deviation);
                downhill[j] += weighted * off;
                for (int k = 0; k < parameter_count; ++k) matrix[j][k] += weighted * slope[k];
            }
        }
    }

private:
    Vector away(const Vector& at) const {
        Vector moved;
        for (int i = 0; i < parameter_count; ++i) moved[i] = at[i] - prior_.mean[i];
        return moved;
    }

    const ModelSize& model_;
    std::span<const Run> runs_;
    const Belief& prior_;
    Matrix precision_;
    std::vector<Routes> routes_;
};

// One damped step from `at`; false when none goes down.
bool step_down(const Problem& problem, Vector& at, double& cost, double& damping) {
    Matrix matrix;
    Vector downhill;
    problem.linearise(at, matrix, downhill);
    for (int attempt = 0; attempt < 12; ++attempt) {
        Matrix damped = matrix;
        for (int i = 0; i < parameter_count; ++i) damped[i][i] *= 1 + damping;
        const Vector step = inverse(damped) * downhill;
        Vector next;
        for (int i = 0; i < parameter_count; ++i) next[i] = at[i] + std::clamp(step[i], -1.0, 1.0);
        const double reached = problem.cost(next);
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

Vector descend(const Problem& problem, Vector at, double& cost) {
    cost = problem.cost(at);
    double damping = 1e-2;
    for (int i = 0; i < 60 && step_down(problem, at, cost, damping); ++i) {
    }
    return at;
}

Fit finish(const Problem& problem, const ModelSize& model, std::span<const Run> runs, const Vector& best, double cost) {
    Fit fit;
    fit.parameters = from_logarithms(best);
    fit.cost = cost;
    Matrix matrix;
    Vector downhill;
    problem.linearise(best, matrix, downhill);
    fit.belief = {best, inverse(matrix)};
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
    const Problem problem{model, runs, prior};
    std::mt19937 random{1};
    std::normal_distribution<double> normal;
    double least = 0;
    Vector best = descend(problem, prior.mean, least);
    for (int start = 1; start < starts; ++start) {
        Vector from = prior.mean;
        for (int i = 0; i < parameter_count; ++i) from[i] += normal(random) * std::sqrt(prior.covariance[i][i]);
        double cost = 0;
        const Vector reached = descend(problem, from, cost);
        if (cost < least) {
            least = cost;
            best = reached;
        }
    }
    return finish(problem, model, runs, best, least);
}

std::vector<double> leave_one_out(const ModelSize& model, std::span<const Run> runs, const Belief& prior,
                                  const Fit& fit) {
    std::vector<double> errors;
    for (std::size_t i = 0; i < runs.size(); ++i) {
        std::vector<Run> others{runs.begin(), runs.end()};
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
        const Problem problem{model, others, prior};
        double cost = 0;
        const Vector reached = descend(problem, fit.belief.mean, cost);
        errors.push_back(predicted_seconds(from_logarithms(reached), model, runs[i]) / runs[i].seconds - 1);
    }
    return errors;
}

std::vector<Certainty> certainties(const Belief& prior, const Fit& fit) {
    std::vector<Certainty> result;
    for (int i = 0; i < parameter_count; ++i) {
        const ParameterInfo& info = parameter_infos()[i];
        const double before = prior.covariance[i][i], after = std::max(0.0, fit.belief.covariance[i][i]);
        const double reach = 1.645 * std::sqrt(after);
        const double centre = fit.belief.mean[i];
        result.push_back({info.least + std::exp(centre - reach), info.least + std::exp(centre + reach),
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
