// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/execution_plan.hpp"

namespace tpx {

/// Which links the groups of a plan use on an allocation, in NICs and shares: bandwidth without the rates.
struct Routes {
    double data_nics = 0;      ///< NICs of the ring of the gradient exchange that has fewest; 0: none leaves a host
    double tensor_nics = 0;    ///< NICs that a tensor group which is cut by a host boundary has
    double tensor_cut = 0;     ///< share of the stages with such a group
    double pipeline_nics = 0;  ///< NICs of each GPU that sends to the next stage, all GPUs of a stage at once
    double pipeline_cut = 0;   ///< share of the borders between stages that are not inside a host
    int further_hosts = 0;     ///< hosts beyond the first
    bool uneven = false;       ///< on some host of several, a NIC serves fewer GPUs than it could
    double largest_nics = 1;   ///< NICs used by the host with the most GPUs
    bool alike = false;        ///< each host has one NIC in use, which serves equally many GPUs on all of them
};

/// The routes of `plan` on `allocation`: ranks fill the hosts in order, tp innermost, then cp and dp, then pp. A ring
/// of the gradient exchange leaves a host through the NICs of its GPUs there, and shares each with the other rings
/// that leave through it. Throws Error (usage) unless the plan has as many GPUs as the allocation.
Routes routes_of(const ExecutionPlan& plan, const Allocation& allocation);

}  // namespace tpx
