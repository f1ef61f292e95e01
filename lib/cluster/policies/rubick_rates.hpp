// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/freedom.hpp"
#include "lib/cluster/plan_table.hpp"
#include "lib/cluster/sensitivity.hpp"
#include "lib/cluster/simulation.hpp"

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace tpx {

/// How fast jobs are with numbers of GPUs, as Rubick and its variants see them. All of it is kept until it is
/// forgotten.
class RubickRates {
public:
    /// What does not change about a job, unless everything is forgotten.
    struct Facts {
        double asked = 0;  ///< its rate with what it asks for, above 0
        int need = 0;      ///< GPUs that it keeps once it runs; 0: it may be stopped
        int start = 0;     ///< GPUs that it starts with, before it grows
    };

    /// Of a policy that has such freedom, and chooses numbers of GPUs where `resources`.
    RubickRates(Freedom freedom, bool resources) : freedom_{freedom}, resources_{resources} {}

    Facts facts(const Simulation& simulation, int id);
    const Sensitivity& curve(const Simulation& simulation, int id);
    /// The rate of the best plan on `grant`.
    double rate(const Simulation& simulation, int id, const Grant& grant);
    void forget_rates();

private:
    const void* family(const TraceJob& job) const;
    int fewest(const Simulation& simulation, int id, double rate);

    Freedom freedom_;
    bool resources_;
    std::optional<GpuPool> empty_;
    std::map<const void*, Sensitivity> curves_;
    std::vector<Facts> facts_;
    std::map<std::pair<const void*, HostShape>, double> rates_;
};

}  // namespace tpx
