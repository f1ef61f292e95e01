// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/run.hpp"

#include <span>
#include <vector>

namespace tpx {

/// How far a run is expected to be from the model, as a share of its time: measurement and what the model leaves out.
/// Fits to all measured A800 runs of one model leave 2 to 4 %.
inline constexpr double run_deviation = 0.04;

/// The parameters that explain runs best, and how well.
struct Fit {
    Parameters parameters;
    Belief belief;               ///< about the logarithms of the parameters, once the runs are seen
    std::vector<double> errors;  ///< predicted / measured - 1 of each run
    double cost = 0;  ///< half the sum of squared deviations, of runs and of parameters from what was believed
};

/// Fits parameters to `runs` in log space: the maximum of the posterior of `prior`, with logarithms of times normal
/// with run_deviation, by Levenberg-Marquardt from the prior's mean and from `starts` - 1 draws of it, always the same
/// ones.
Fit fit_parameters(const ModelSize& model, std::span<const Run> runs, const Belief& prior, int starts = 6);

/// predicted / measured - 1 of each run, by a fit to all the others.
std::vector<double> leave_one_out(const ModelSize& model, std::span<const Run> runs, const Belief& prior,
                                  const Fit& fit);

/// How sure a fit is of one parameter.
struct Certainty {
    double low = 0;      ///< 95 % of the belief is above
    double high = 0;     ///< and 95 % below this
    double learned = 0;  ///< share of the prior's variance that the runs took away: 0 nothing, 1 all
};

/// For each parameter, in the order of parameter_infos(). One that the runs do not determine has a low `learned`.
std::vector<Certainty> certainties(const Belief& prior, const Fit& fit);

/// Below this share a parameter counts as not determined by the runs.
inline constexpr double determined = 0.5;

/// Indices of the runs that do not belong: the fit to all others misses one by more than four times the usual and by
/// more than 10 %. The worst is put aside first, then the rest are judged without it; a quarter of the runs at most.
std::vector<std::size_t> outliers(const ModelSize& model, std::span<const Run> runs, const Belief& prior);

/// The mean of |x|.
double mean_magnitude(std::span<const double> values);

}  // namespace tpx
