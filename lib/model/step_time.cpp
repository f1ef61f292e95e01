// SPDX-License-Identifier: Apache-2.0
#include "lib/model/step_time.hpp"

#include <algorithm>
#include <cmath>

namespace tpx {
namespace {

// One call's arguments and what several parts of the step need.
struct Step {
    const Parameters& is;
    const ModelSize& model;
    const ExecutionPlan& plan;
    const Routes& routes;
    double cpus;
    double local;    // samples of a replica, in one pass
    double stretch;  // how much longer p stages take with bubbles than one GPU would with the same work in parallel
    double sharded;  // parameters of a GPU

    double full_recompute() const { return plan.recompute == Recompute::full; }
};

// Seconds of one pass forward, without recomputation.
double forward_pass(const Step& step) {
    const bool split = step.plan.tp * step.plan.pp > 1;
    return step.is.forward * (split ? step.is.model_parallel : 1) * step.local / (step.plan.cp * step.plan.tp) /
           step.plan.pp * step.stretch;
}

// Seconds of an all-reduce of the gradients over the replicas: a ring, 2(d-1)/d of the bytes through each link.
double gradient_exchange(const Step& step) {
    const double members = step.plan.dp * step.plan.cp;
    if (members <= 1) return 0;
    const double bytes = step.model.bytes * step.sharded * 2 * (members - 1) / members;
    if (step.routes.data_nics == 0) return bytes / step.is.intra;
    const double factor = step.routes.further_hosts == 1 ? step.is.two_hosts : 1;
    return factor * bytes / (step.routes.data_nics * step.is.nic);
}

// Seconds of the all-reduces inside layers: 4 a layer and micro-batch, 6 with full recomputation.
double tensor_exchange(const Step& step) {
    const ExecutionPlan& plan = step.plan;
    if (plan.tp <= 1) return 0;
    const double reduces = step.full_recompute() ? 6 : 4;
    const double samples = step.local * plan.accumulation / plan.cp;
    const double bytes = reduces * step.model.bytes * 2 * (plan.tp - 1) / plan.tp * samples * step.model.sequence *
                         step.model.hidden * step.model.layers * step.stretch / plan.pp;
    const double cut = step.routes.tensor_cut;
    const double inside = (1 - cut) / (step.is.intra * step.is.tensor_rate);
    return bytes * (cut > 0 ? inside + cut / (step.routes.tensor_nics * step.is.nic) : inside);
}

double pipeline_exchange(const Step& step) {
    const ExecutionPlan& plan = step.plan;
    if (plan.pp <= 1) return 0;
    const double samples = step.local * plan.accumulation / plan.cp / plan.micro_batches;
    const double sends = plan.micro_batches * plan.vpp + plan.pp - 2;
    const double bytes = 2 * step.model.bytes * samples * step.model.sequence * step.model.hidden /
                         (plan.sequence ? plan.tp : 1) * sends;
    const double cut = step.routes.pipeline_cut;
    const double inside = (1 - cut) / step.is.intra;
    return bytes * (cut > 0 ? inside + cut / (step.routes.pipeline_nics * step.is.nic) : inside) +
           step.is.further_stage * (plan.pp - 1);
}

// Seconds that a step waits where GPUs do not fill their NICs on some host.
double uneven_wait(const Step& step) {
    const Parameters& is = step.is;
    if (step.routes.alike) return is.uneven * is.uneven_alike;
    return is.uneven * std::pow(is.uneven_doubling, std::log2(step.routes.largest_nics));
}

// Backward passes, the exchange of gradients behind the last of them, and the optimizer on the GPU.
void add_resident(const Step& step, double backward, double exchange, StepTime& time) {
    const ExecutionPlan& plan = step.plan;
    const double passes = plan.accumulation;
    time.backward = passes * backward;
    double behind = exchange, after = 0, before = 0, exchanges = 1;
    if (plan.zero >= 1) {
        behind = exchange * step.is.zero_exchange;
        after = exchange / 2;  // the weights are gathered after the step
    }
    if (plan.zero >= 2) exchanges = passes;
    if (plan.zero >= 3) {  // gathered before each pass in either direction instead
        behind = exchange * (step.is.zero_exchange + 0.5);
        after = 0;
        before = passes * (overlap(time.forward / passes, exchange / 2, step.is.k_sync) - time.forward / passes);
    }
    time.gradients = exchanges * (overlap(backward, behind, step.is.k_sync) - backward) + after + before;
    const double shares = plan.zero >= 1 ? plan.dp * plan.cp : 1;
    time.optimizer = step.is.k_opt * step.sharded / shares;
}

// Gradients go to the host behind each backward pass, the CPU updates its share, weights come back.
void add_offloaded(const Step& step, double backward, double exchange, StepTime& time) {
    const double passes = step.plan.accumulation;
    const double copy = step.model.bytes * step.sharded / step.is.pcie;
    const double synced = overlap(backward, exchange, step.is.k_sync);
    const double update = step.is.k_optoff * step.sharded / (step.plan.dp * step.plan.cp * step.cpus);
    time.backward = passes * backward;
    time.gradients = synced - backward;
    time.optimizer = update;
    time.offload = (passes - 1) * (overlap(backward, copy, step.is.k_off) - backward) +
                   (overlap(synced, copy, step.is.k_off) - synced) + overlap(update, copy, step.is.k_swap) - update;
}

}  // namespace

double overlap(double x, double y, double k) {
    const double larger = std::max(x, y), smaller = std::min(x, y);
    if (smaller <= 0) return larger;
    return larger * std::exp(std::log1p(std::exp(k * std::log(smaller / larger))) / k);
}

StepTime step_time(const Parameters& parameters, const ModelSize& model, double batch, const ExecutionPlan& plan,
                   const Routes& routes, double cpus) {
    Step step{parameters, model, plan, routes, cpus};
    step.local = std::ceil(batch / plan.dp) / plan.accumulation;
    step.stretch = 1 + (plan.pp - 1) / (static_cast<double>(plan.vpp) * plan.micro_batches);
    step.sharded = model.parameters / (plan.tp * plan.pp);
    StepTime time;
    const double forward = forward_pass(step);
    time.forward = plan.accumulation * forward;
    if (step.full_recompute())
        time.recompute = time.forward * parameters.recompute;
    else if (plan.recompute == Recompute::selective &&
             !model.flash_attention)  // attention's scores: 4bs^2h of 24bsh^2 + 4bs^2h operations
        time.recompute = time.forward * model.sequence / (6 * model.hidden + model.sequence);
    const double backward = parameters.k_bwd * forward;
    const double exchange = gradient_exchange(step);
    plan.offload ? add_offloaded(step, backward, exchange, time) : add_resident(step, backward, exchange, time);
    time.tensor = tensor_exchange(step);
    time.pipeline = pipeline_exchange(step);
    time.constant = parameters.k_const * plan.accumulation * plan.micro_batches * step.stretch / plan.pp;
    if (plan.tp * plan.pp == 1) {
        time.constant += parameters.further_host * routes.further_hosts;
        if (routes.uneven && !plan.offload) time.constant += uneven_wait(step);
    }
    return time;
}

}  // namespace tpx
