// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/linear_program.hpp"

#include <map>
#include <span>
#include <vector>

namespace tpx {

/// A job of Gavel's: by kind of GPU, how fast it is and how many GPUs it takes there; 0: it cannot run there.
struct KindUse {
    double weight = 1;
    std::vector<double> rates;
    std::vector<int> gpus;
};

/// An order of uses.
bool less_use(const KindUse& a, const KindUse& b);

/// Numbers for different uses.
class UseClasses {
public:
    /// The number of `use`: the next one unless it is known.
    std::size_t add(KindUse use);
    /// By number.
    const std::vector<KindUse>& uses() const { return uses_; }

private:
    std::map<KindUse, std::size_t, decltype(&less_use)> numbers_{&less_use};
    std::vector<KindUse> uses_;
};

/// The linear program whose optimum is the least share of Gavel's max-min fairness ("least attained service" in
/// Narayanan et al., "Heterogeneity-Aware Cluster Scheduling", OSDI 2020): variable j kinds + t is the share of time of
/// job j on kind t, the last one the least of all jobs' GPUs times rate / mean rate / weight. `counts` has the GPUs of
/// each kind.
LinearProgram max_min_program(std::span<const KindUse> jobs, std::span<const int> counts);

/// The shares of time, by job and kind, of max-min fairness: nobody's worth (GPUs times rate / mean rate / weight) can
/// be raised without lowering that of somebody who has as little or less. Jobs of equal use have equal shares, and the
/// order of jobs does not matter. A job that no kind can run has none.
std::vector<std::vector<double>> fair_time_shares(std::span<const KindUse> jobs, std::span<const int> counts);

/// The same by class, of which `jobs` says how many jobs each has.
std::vector<std::vector<double>> fair_class_shares(std::span<const KindUse> uses, std::span<const int> jobs,
                                                   std::span<const int> counts);

/// The shares of time, by job and kind, as hundred-thousandths, as VirtualFlow's simulator computes them: an optimum.
/// Of few jobs it is the one that interior_optimum() finds, with what is left over divided among those who have more;
/// of many a vertex, which is found sooner.
std::vector<std::vector<double>> max_min_shares(std::span<const KindUse> jobs, std::span<const int> counts);

}  // namespace tpx
