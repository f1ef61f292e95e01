// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/job.hpp"

#include <map>
#include <vector>

namespace tpx {

/// What a policy may choose for a job.
enum class Freedom {
    none,       ///< its own plan
    resources,  ///< its own plan with another degree of data parallelism
    plans       ///< any plan
};

/// The rates of a job over numbers of GPUs, packed on as few hosts as can be.
class Sensitivity {
public:
    Sensitivity(const TraceJob& job, const Cluster& cluster, Freedom freedom, int most);

    /// Units a second with at most `gpus` GPUs.
    double rate(int gpus) const { return rates_[gpus]; }
    /// The fewest GPUs with the rate of at most `gpus`; 0 where it cannot run.
    int useful(int gpus) const { return useful_[gpus]; }
    int most() const { return static_cast<int>(rates_.size()) - 1; }
    /// The best further step from `gpus`, up to `limit`: how many GPUs the job would have, and by how much the rate
    /// grows a GPU. {gpus, 0} where nothing helps.
    std::pair<int, double> step_up(int gpus, int limit) const;

private:
    std::vector<double> rates_;
    std::vector<int> useful_;
};

/// `gpus` GPUs on the first hosts of the job's kind, or of the first kind; empty where there are not so many.
Grant packed_grant(const TraceJob& job, const Cluster& cluster, int gpus);

/// The plan for `grant`, and with which rate.
int plan_for(const TraceJob& job, const Grant& grant, const Cluster& cluster, Freedom freedom);

}  // namespace tpx
