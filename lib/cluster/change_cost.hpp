// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/job.hpp"

#include <span>

namespace tpx {

/// What it takes to give a job that has state other GPUs or another plan.
struct ChangeCost {
    Time delay = 0;    ///< for which it holds its new GPUs and does not train
    double bytes = 0;  ///< that hosts receive from each other or from storage, or write to storage
};

/// How costs of changes follow from the job, what it has and what it gets.
class ChangeCosts {
public:
    virtual ~ChangeCosts() = default;
    /// A running job goes on with `to`, which is not empty, in place of `from`.
    virtual ChangeCost change(const TraceJob& job, const Grant& from, const Grant& to) const = 0;
    /// The part of each delay that comes after the state has reached the new GPUs.
    virtual Time restart() const { return 0; }
    /// Whether changes take state through storage, which has a checkpoint then.
    virtual bool stores() const { return true; }
    /// A job that was stopped goes on with `to`. It left `from`, and its state goes from there to storage and back;
    /// empty: a failure took its GPUs, and the state is in storage.
    virtual ChangeCost resume(const TraceJob& job, const Grant& from, const Grant& to) const = 0;
    /// Whether the hosts of `from` other than the `lost` ones hold all state of the job.
    virtual bool survives(const TraceJob& /*job*/, const Grant& /*from*/, std::span<const int> /*lost*/) const {
        return false;
    }
    /// A job that was stopped by the loss of hosts, and survives(), goes on with `to`.
    virtual ChangeCost recover(const TraceJob& job, const Grant& from, std::span<const int> /*lost*/,
                               const Grant& to) const {
        return change(job, from, to);
    }
};

}  // namespace tpx
