// SPDX-License-Identifier: Apache-2.0
#include "lib/model/estimate.hpp"

#include "lib/change/cut_blocks.hpp"
#include "lib/core/error.hpp"
#include "lib/core/units.hpp"

#include <algorithm>
#include <cmath>

namespace tpx {
namespace {

// The slowest NIC of the hosts that take part, and whether somebody gave it.
double nic_rate(std::span<const Host> hosts, bool& assumed) {
    double slowest = std::numeric_limits<double>::infinity();
    for (const Host& host : hosts) {
        if (host.lost) continue;
        assumed = assumed || !host.nic;
        slowest = std::min(slowest, host.nic.value_or(default_rates.nic) / std::max(1, host.rails));
    }
    return slowest;
}

StepTime time_of(const ModelSize& model, const Layout& layout, std::span<const Host> hosts, double batch,
                 const Parameters& parameters) {
    ExecutionPlan plan = execution_plan_of(layout, batch);
    const Allocation allocation = allocation_of(hosts, layout.ranks(), tp_span(layout));
    const Routes routes = routes_of(plan, allocation);
    StepTime best = step_time(parameters, model, batch, plan, routes, allocation.cpus);
    while (plan.micro_batches > 1) {  // fewer of them have more bubbles, but fewer constants
        plan.micro_batches /= 2;
        const StepTime time = step_time(parameters, model, batch, plan, routes, allocation.cpus);
        if (time.total() < best.total()) best = time;
    }
    return best;
}

}  // namespace

ExecutionPlan execution_plan_of(const Layout& layout, double batch) {
    ExecutionPlan plan;
    plan.dp = layout.dp;
    plan.tp = layout.tp;
    plan.pp = layout.pp;
    plan.cp = layout.cp;
    plan.vpp = layout.vpp;
    plan.zero = layout.fsdp > 1 ? 3 : layout.zero;
    if (layout.pp > 1) plan.micro_batches = static_cast<int>(std::clamp(std::ceil(batch / layout.dp), 1.0, 1e6));
    return plan;
}

Allocation allocation_of(std::span<const Host> hosts, int ranks, int group) {
    Allocation allocation;
    for (const Block& block : cut_blocks(hosts, ranks, group)) {
        const Host& host = hosts[block.host];
        const double per_nic = static_cast<double>(host.gpus) / std::clamp(host.rails, 1, host.gpus);
        allocation.gpus_per_nic = std::max(allocation.gpus.empty() ? 1.0 : allocation.gpus_per_nic, per_nic);
        allocation.gpus.push_back(block.end - block.begin);
    }
    return allocation;
}

StepEstimate estimate_step(const ModelSize& model, const Layout& layout, std::span<const Host> hosts, double batch) {
    Parameters parameters = prior_parameters(model);
    bool assumed_nic = false;
    parameters.nic = link_efficiency * nic_rate(hosts, assumed_nic);
    StepEstimate estimate{time_of(model, layout, hosts, batch, parameters), {}};
    estimate.assumed.push_back(fmt::format("GPUs at {:.0f} Tflop/s", assumed_flops / 1e12));
    estimate.assumed.push_back(fmt::format("{} between GPUs of a host", format_rate(parameters.intra)));
    if (assumed_nic) estimate.assumed.push_back(fmt::format("{} a NIC", format_rate(parameters.nic / link_efficiency)));
    return estimate;
}

StepEstimate estimate_step(const ModelSize& model, const Layout& layout, std::span<const Host> hosts, double batch,
                           const Parameters& fitted) {
    return {time_of(model, layout, hosts, batch, fitted), {}};
}

}  // namespace tpx
