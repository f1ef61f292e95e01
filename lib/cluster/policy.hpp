// SPDX-License-Identifier: Apache-2.0
#pragma once

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
};

}  // namespace tpx
