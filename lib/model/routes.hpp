// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/execution_plan.hpp"

namespace tpx {

/// Which links the groups of a plan use on an allocation, in NICs and shares: bandwidth without the rates.
struct Routes {
    double data_nics = 0;      ///< NICs that each ring of the gradient exchange has; 0: it stays inside hosts
    double tensor_nics = 0;    ///< NICs that a tensor group which is cut by a host boundary has
    double tensor_cut = 0;     ///< share of the stages with such a group
    double pipeline_nics = 0;  ///< NICs for each GPU between stages; 0: all stages are on one host
    int further_hosts = 0;     ///< hosts beyond the first
    bool uneven = false;       ///< on some host of several, a NIC serves fewer GPUs than elsewhere
};

/// The routes of `plan` on `allocation`: ranks fill the hosts in order, tp innermost, then cp and dp, then pp. A ring
/// that leaves a host has the NICs that the job's GPUs on the emptiest host have, divided among the rings of a stage
/// that leave through them. Throws Error (usage) unless the plan has as many GPUs as the allocation.
Routes routes_of(const ExecutionPlan& plan, const Allocation& allocation);

}  // namespace tpx
