// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/model_plans.hpp"

#include "lib/model/fit.hpp"

#include <algorithm>
#include <cmath>

namespace tpx {
namespace {

// `own` with all the data parallelism that `gpus` GPUs leave, and every way to cut its samples that is a power of two,
// or one by one.
std::vector<ExecutionPlan> plans_like(const Job& job, ExecutionPlan own, int gpus) {
    const int replica = own.tp * own.pp * own.cp;
    if (gpus % replica != 0) return {};
    own.dp = gpus / replica;
    own.micro_batches = own.accumulation = 1;
    const int samples = static_cast<int>(job.batch) / own.dp;
    std::vector<ExecutionPlan> plans;
    for (int cuts = 1; cuts <= samples; cuts = 2 * cuts > samples && cuts < samples ? samples : 2 * cuts) {
        (own.pp > 1 ? own.micro_batches : own.accumulation) = cuts;
        if (possible(job, own)) plans.push_back(own);
    }
    return plans;
}

}  // namespace

int ModelPlans::number(const ExecutionPlan& plan) const {
    const auto found = std::ranges::find(plans_, plan, &Named::plan);
    const auto index = static_cast<int>(found - plans_.begin());
    if (found == plans_.end()) plans_.push_back({plan, to_string(plan)});
    return index;
}

double ModelPlans::rate(const ExecutionPlan& plan, const HostShape& shape) const {
    const Allocation there = allocation(shape);
    if (plan.gpus() != there.total()) return 0;
    return 1 / seconds(evaluate_plan(job_, plan, there), shape);
}

// Of a step: measured, or as predicted.
double ModelPlans::seconds(const EvaluatedPlan& judged, const HostShape& shape) const {
    if (measured_.empty()) return judged.time.total();
    const auto found = measured_.find({number(judged.plan), shape, job_.cpus});
    return found == measured_.end() ? judged.time.total() : found->second;
}

bool ModelPlans::observe(const ExecutionPlan& plan, const HostShape& shape, double seconds) const {
    if (!measured_.try_emplace({number(plan), shape, job_.cpus}, seconds).second) return false;
    if (!prior_) {
        prior_ = prior_belief(job_.model);
        prior_->mean = logarithms(job_.parameters);
    }
    runs_.push_back({plan, allocation(shape), job_.batch, seconds, {}, {}});
    job_.parameters = fit_parameters(job_.model, runs_, *prior_, 1).parameters;
    best_.clear();
    like_.clear();
    return true;
}

std::shared_ptr<const ModelPlans> ModelPlans::with_cpus(double cpus) const {
    auto other = std::make_shared<ModelPlans>(*this);
    other->job_.cpus = cpus;
    other->best_.clear();
    other->like_.clear();
    return other;
}

int ModelPlans::best(const HostShape& shape) const {
    const auto [entry, is_new] = best_.try_emplace(shape, any);
    if (!is_new) return entry->second;
    const std::vector<EvaluatedPlan> plans = best_plans(job_, allocation(shape));
    double least = HUGE_VAL;
    for (const EvaluatedPlan& judged : plans) {
        const double time = seconds(judged, shape);
        if (time >= least) continue;
        least = time;
        entry->second = number(judged.plan);
        if (measured_.empty()) break;  // the first is the fastest
    }
    return entry->second;
}

int ModelPlans::best_like(const ExecutionPlan& own, const HostShape& shape) const {
    ExecutionPlan kind = own;
    kind.dp = kind.micro_batches = kind.accumulation = 1;
    const auto [entry, is_new] = like_.try_emplace({number(kind), shape}, any);
    if (!is_new) return entry->second;
    const Allocation there = allocation(shape);
    double least = HUGE_VAL;
    for (const ExecutionPlan& plan : plans_like(job_, own, there.total())) {
        const EvaluatedPlan judged = evaluate_plan(job_, plan, there);
        const double time = seconds(judged, shape);
        if (!judged.fits || time >= least) continue;
        least = time;
        entry->second = number(plan);
    }
    return entry->second;
}

std::optional<ExecutionPlan> ModelSpeed::plan_on(const Grant& grant) const {
    if (grant.plan > 0) return plans_->plan(grant.plan - 1);
    if (grant.gpus() == own_.gpus()) return own_;
    const int other = plans_->best_like(own_, shape_of(grant));
    return other == any ? std::nullopt : std::optional{plans_->plan(other)};
}

double ModelSpeed::rate(const Grant& grant, const Cluster&) const {
    const auto plan = plan_on(grant);
    return plan ? plans_->rate(*plan, shape_of(grant)) : 0;
}

int ModelSpeed::plan_number(const Grant& grant) const {
    if (grant.plan > 0 || grant.gpus() == own_.gpus()) return grant.plan;
    const int other = plans_->best_like(own_, shape_of(grant));
    return other == any ? grant.plan : other + 1;
}

std::shared_ptr<const Speed> ModelSpeed::with_cpus(double cpus, const std::shared_ptr<const Speed>&) const {
    return std::make_shared<ModelSpeed>(plans_->with_cpus(cpus), own_);
}

bool ModelSpeed::observe(const Grant& grant, double rate) const {
    const auto plan = plan_on(grant);
    return plan && plans_->observe(*plan, shape_of(grant), 1 / rate);
}

double TrueSpeed::rate(const Grant& grant, const Cluster&) const {
    const auto plan = believed_->plan_on(grant);
    return plan ? truth_->rate(*plan, shape_of(grant)) : 0;
}

std::shared_ptr<const Speed> TrueSpeed::with_cpus(double cpus, const std::shared_ptr<const Speed>& believed) const {
    auto model = std::dynamic_pointer_cast<const ModelSpeed>(believed);
    return model ? std::make_shared<TrueSpeed>(truth_->with_cpus(cpus), std::move(model)) : nullptr;
}

int ModelSpeed::best_plan(const Grant& grant, const Cluster& cluster, bool own_kind) const {
    const HostShape shape = shape_of(grant);
    const int best = own_kind ? plans_->best_like(own_, shape) : plans_->best(shape);
    Grant with = grant;
    with.plan = 0;
    const double own = rate(with, cluster);
    return best != any && plans_->rate(plans_->plan(best), shape) > own ? best + 1 : 0;
}

}  // namespace tpx
