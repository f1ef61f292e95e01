// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/fit_count.hpp"
#include "lib/model/posterior.hpp"

#include <span>
#include <vector>

namespace tpx {

/// The parameters that explain runs best, and how well.
struct Fit {
    Parameters parameters;
    Belief prior;                 ///< before the runs are seen
    Belief belief;                ///< about the logarithms of the parameters, once the runs are seen
    std::vector<double> errors;   ///< predicted / measured - 1 of each run
    std::vector<double> weights;  ///< how much each run counted: 1, or near 0 for one that contradicts the others
    std::vector<double> shares;   ///< one over the number of runs of each run's configuration
    std::vector<double> leave_one_out_variances;  ///< of the logarithm of each predicted time, by other configurations
    double cost = 0;  ///< minus the logarithm of the posterior's density at the parameters, up to a constant
};

/// From how many points a fit searches by default.
inline constexpr int fit_starts = 6;

/// Fits parameters to `runs` in log space by Levenberg-Marquardt. The search for maxima of Posterior starts from the
/// prior's mean and from `starts` - 1 fixed draws of it; with few runs and `starts` above 1, also from the fits that
/// leave out one configuration each. The result is the average of the maxima that differ in which runs are wrong,
/// weighted by the mass around them. `count` counts the searches; null: none are counted.
Fit fit_parameters(const ModelSize& model, std::span<const Run> runs, const Belief& prior, int starts = fit_starts,
                   FitCount* count = nullptr);

/// predicted / measured - 1 of each run, by a fit to all runs of other configurations.
std::vector<double> leave_one_out(const ModelSize& model, std::span<const Run> runs, const Belief& prior,
                                  const Fit& fit, FitCount* count = nullptr);

/// How sure a fit is of one parameter.
struct Certainty {
    double low = 0;      ///< 95 % of the belief is above
    double high = 0;     ///< and 95 % below this
    double learned = 0;  ///< share of the prior's variance that the runs took away: 0 nothing, 1 all
};

/// For each parameter, in the order of parameter_infos(). One that the runs do not determine has a low `learned`.
std::vector<Certainty> certainties(const Fit& fit);

/// Below this share a parameter counts as not determined by the runs.
inline constexpr double determined = 0.5;

/// Indices of the runs that do not belong: the fit to all others misses one by more than four times the usual and by
/// more than 10 %. The worst is put aside first, then the rest are judged without it; a quarter of the runs at most.
std::vector<std::size_t> outliers(const ModelSize& model, std::span<const Run> runs, const Belief& prior,
                                  FitCount* count = nullptr);

/// The mean of |x|.
double mean_magnitude(std::span<const double> values);

}  // namespace tpx
