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
/// normal, 3.5 % off; with Errors::some_wrong a run that contradicts the others hardly counts. Parameters that hardware
/// decides have Student priors, because untuned hardware can be far from any prior.
class Posterior {
public:
    /// All of `runs` count except those of the same configuration as the one at index `without`.
    Posterior(const ModelSize& model, std::span<const Run> runs, const Belief& prior, Errors errors,
              std::size_t without = none);

    static constexpr std::size_t none = std::size_t(-1);

    /// Minus the logarithm of the density at the logarithms `at`, up to a constant.
    double cost(const Vector& at) const;

    /// The matrix of a Gauss-Newton step at `at` with the present weights, and the direction downhill.
    void linearize(const Vector& at, Matrix& matrix, Vector& downhill) const;

    /// The covariance of the logarithms near the maximum `at`.
    Matrix covariance(const Vector& at) const;

    /// Laplace's approximation of minus the logarithm of the probability mass around the maximum `at`, up to a
    /// constant.
    double mass_cost(const Vector& at) const;

    /// How much each run counts at `at`: 1 if the model meets it, near 0 if it contradicts the others.
    std::vector<double> weights(const Vector& at) const;

    /// For each run, the variance of the logarithm of its predicted time that is left when all runs of other
    /// configurations are known; `covariance` is that of the maximum `at`.
    std::vector<double> left_out_variances(const Vector& at, const Matrix& covariance) const;

    /// For each run, one over the number of runs of its configuration.
    const std::vector<double>& shares() const { return shares_; }

private:
    bool counts(std::size_t i) const { return without_ == none || configurations_[i] != configurations_[without_]; }
    double log_error(const Parameters& is, std::size_t i) const;  // predicted / measured of run i
    Vector away(const Vector& at) const;                          // from the prior's mean

    const ModelSize& model_;
    std::span<const Run> runs_;
    const Belief& prior_;
    Errors errors_;
    std::size_t without_;
    Matrix precision_;
    std::vector<Routes> routes_;
    std::vector<std::size_t> configurations_;
    std::vector<double> shares_;
};

}  // namespace tpx
