// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/freedom.hpp"
#include "lib/cluster/job.hpp"

#include <vector>

namespace tpx {

/// More GPUs are of use where they make a job faster by more than this factor.
inline constexpr double min_gain = 1.01;

/// The rates of a job over numbers of GPUs, packed on as few hosts as possible.
class Sensitivity {
public:
    /// For 1 to `most` GPUs.
    Sensitivity(const TraceJob& job, const Cluster& cluster, Freedom freedom, int most);

    /// Units per second with exactly `gpus` GPUs; 0 where the job cannot run on them.
    double rate(int gpus) const { return gpus <= most() ? rates_[gpus] : 0; }
    int most() const { return static_cast<int>(rates_.size()) - 1; }
    /// The numbers of GPUs from `from` to `to` that are of use: each is faster than `rate` and all smaller ones.
    std::vector<int> useful(int from, int to, double rate = 0) const;

private:
    std::vector<double> rates_;
};

/// `gpus` GPUs on the first hosts of the job's kind, or of the first kind; empty where there are not so many.
Grant packed_grant(const TraceJob& job, const Cluster& cluster, int gpus);

/// The plan for `grant`.
int plan_for(const TraceJob& job, const Grant& grant, const Cluster& cluster, Freedom freedom);

}  // namespace tpx
