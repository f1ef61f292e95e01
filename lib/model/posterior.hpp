// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/run.hpp"

#include <span>
#include <vector>

namespace tpx {

/// How far a run that is yet to be measured is expected to be from the model, as a share of its time: measurement and
/// what the model leaves out. Fits to all measured A800 runs of one model leave 1 to 4 %, but 11 % for ViT.
inline constexpr double run_deviation = 0.04;

/// What is assumed of the errors of runs: all are normal, or a few runs are wrong, by any factor.
enum class Errors { normal, some_wrong };

/// The posterior density of the parameters once runs are known. Runs of one configuration count together as one run,
/// because all of them are as far from the model as it is wrong about that configuration. The logarithms of times are
/// normal, 3.5 % off; with Errors::some_wrong a run that contradicts the others hardly counts. The parameters that
/// hardware decides share one Student prior, because untuned hardware can be far from any prior. Uses
/// prior_for(prior, number of configurations).
class Posterior {
public:
    /// All of `runs` count. `model` and `runs` must outlive the posterior.
    Posterior(const ModelSize& model, std::span<const Run> runs, const Belief& prior, Errors errors);

    /// A copy with other errors, or without the runs that have the same configuration as the run at index `run`.
    Posterior with(Errors errors) const;
    Posterior without(std::size_t run) const;

    /// Minus the logarithm of the density at the logarithms `at`, up to a constant.
    double cost(const Vector& at) const;

    /// The matrix of a Gauss-Newton step at `at` with the present weights, and the direction downhill.
    void linearize(const Vector& at, Matrix& matrix, Vector& downhill) const;

    /// What the runs of one configuration add to the matrix and the direction of linearize().
    struct Share {
        Vector slope{};      ///< of the logarithm of their predicted time
        double weight = 0;   ///< their information about that logarithm
        double error = 0;    ///< weighted mean of their log(predicted / measured)
        bool counts = true;  ///< false: left out by without()
    };

    /// The shares of all configurations, in the order of their first runs.
    std::vector<Share> shares_at(const Vector& at) const;

    /// The same from `shares`, the result of shares_at(at). Skips shares that do not count.
    void linearize(const Vector& at, std::span<const Share> shares, Matrix& matrix, Vector& downhill) const;

    /// The index of each run's configuration in shares_at().
    const std::vector<std::size_t>& groups() const { return groups_; }

    const Belief& prior() const { return prior_; }

    /// The covariance of the logarithms near the maximum `at`.
    Matrix covariance(const Vector& at) const;

    /// Laplace's approximation of minus the logarithm of the probability mass around the maximum `at`, up to a
    /// constant.
    double mass_cost(const Vector& at) const;

    /// How much each run counts at `at`: 1 if the model meets it, near 0 if it contradicts the others.
    std::vector<double> weights(const Vector& at) const;

    /// For each run, the variance of the logarithm of its predicted time that is left when all runs of other
    /// configurations are known; `covariance` is that of the maximum `at`.
    std::vector<double> leave_one_out_variances(const Vector& at, const Matrix& covariance) const;

    /// For each run, one over the number of runs of its configuration.
    const std::vector<double>& shares() const { return shares_; }

private:
    static constexpr std::size_t none = std::size_t(-1);

    std::vector<double> log_errors(const Parameters& is) const;  // log(predicted / measured) of each run
    std::vector<double> weights(const std::vector<double>& log_errors) const;
    Vector away(const Vector& at) const;  // from the prior's mean

    // Sums of squared distances from the prior's mean, in standard deviations.
    struct SquaredDistances {
        double hardware = 0, others = 0;
    };
    SquaredDistances squared_distances(const Vector& moved) const;

    const ModelSize& model_;
    std::span<const Run> runs_;
    Belief prior_;
    Errors errors_;
    std::size_t without_ = none;  // the configuration that is left out
    Matrix precision_;
    std::vector<std::size_t> firsts_;  // the first run of each configuration
    std::vector<Routes> routes_;       // of each configuration
    std::vector<std::size_t> groups_;  // the configuration of each run
    std::vector<double> shares_;
};

}  // namespace tpx
