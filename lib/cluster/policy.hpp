// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/freedom.hpp"

#include <string_view>

namespace tpx {

class Simulation;

/// Who decides which job runs where. One object serves one simulation.
class Policy {
public:
    virtual ~Policy() = default;
    /// Called when all that happens at a moment has happened: jobs have come or finished, GPUs have become free, a wake
    /// that was asked for is due. With rounds, only at their beginnings.
    virtual void schedule(Simulation& simulation) = 0;
    /// Called before schedule() if limits of jobs, GPUs of hosts or predicted rates have changed: nothing that was
    /// computed from them is valid any longer.
    virtual void forget() {}
    /// Whether it changes the number of GPUs of running jobs.
    virtual bool resizes() const { return false; }
    /// What it chooses for a job whose GPUs change.
    virtual Freedom freedom() const { return Freedom::none; }
};

}  // namespace tpx
