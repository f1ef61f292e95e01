// SPDX-License-Identifier: Apache-2.0
#include "lib/model/routes.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <cmath>

namespace tpx {
namespace {

// Where tensor groups are cut: the stages, and the NICs of the smaller part of the worst cut.
void find_cuts(const ExecutionPlan& plan, const Allocation& allocation, Routes& routes) {
    const int stage = plan.tp * plan.cp * plan.dp;
    int boundary = 0, cut_stages = 0, last_cut = -1;
    for (std::size_t i = 0; i + 1 < allocation.gpus.size(); ++i) {
        boundary += allocation.gpus[i];
        if (boundary % stage != 0) routes.data_nics = 1;  // the NICs are counted once all boundaries are known
        const int part = boundary % plan.tp;
        if (part == 0) continue;
        const double nics = std::ceil(std::min(part, plan.tp - part) / allocation.gpus_per_nic);
        routes.tensor_nics = cut_stages == 0 ? nics : std::min(routes.tensor_nics, nics);
        if (boundary / stage != last_cut) ++cut_stages;
        last_cut = boundary / stage;
    }
    routes.tensor_cut = static_cast<double>(cut_stages) / plan.pp;
}

}  // namespace

Routes routes_of(const ExecutionPlan& plan, const Allocation& allocation) {
    if (allocation.gpus.empty() || plan.gpus() != allocation.total())
        throw Error{Exit::usage, "the plan {} has {} GPUs, but {} are allocated", to_string(plan), plan.gpus(),
                    allocation.total()};
    Routes routes;
    find_cuts(plan, allocation, routes);
    const int fewest = std::ranges::min(allocation.gpus);
    const double nics = std::ceil(fewest / allocation.gpus_per_nic);
    if (routes.data_nics > 0) routes.data_nics = plan.dp * plan.cp > 1 ? nics / std::min(plan.tp, fewest) : 0;
    if (allocation.gpus.size() > 1) {
        routes.further_hosts = static_cast<int>(allocation.gpus.size()) - 1;
        if (plan.pp > 1) routes.pipeline_nics = 1;
        routes.uneven = std::ranges::any_of(allocation.gpus,
                                            [&](int gpus) { return std::fmod(gpus, allocation.gpus_per_nic) != 0; });
    }
    return routes;
}

}  // namespace tpx
