// SPDX-License-Identifier: Apache-2.0
#include "lib/model/evaluate_plan.hpp"

#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/model/techniques.hpp"

#include <algorithm>
#include <cmath>

namespace tpx {
namespace {

std::vector<int> divisors(int number) {
    std::vector<int> all;
    for (int d = 1; d <= number; ++d)
        if (number % d == 0) all.push_back(d);
    return all;
}

// 1, 2, 4, ... as far as they divide `samples`, and `samples` itself.
std::vector<int> portions(int samples) {
    std::vector<int> all;
    for (int n = 1; n < samples && samples % n == 0; n *= 2) all.push_back(n);
    all.push_back(samples);
    return all;
}

// The plan with each way to save memory.
void add_savings(const Job& job, ExecutionPlan plan, std::vector<ExecutionPlan>& plans) {
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        plan.recompute = recompute;
        plan.sequence = plan.tp > 1;
        for (const bool offload : {false, true}) {
            plan.offload = offload;
            for (plan.zero = offload ? 2 : 0; plan.zero <= (offload ? 2 : 3); ++plan.zero)
                if (possible(job, plan) && (plan.zero == 0 || plan.dp > 1 || offload)) plans.push_back(plan);
        }
    }
}

}  // namespace

EvaluatedPlan evaluate_plan(const Job& job, const ExecutionPlan& plan, const Allocation& allocation) {
    EvaluatedPlan judged{plan, {}, {}, false};
    judged.time = step_time(job.parameters, job.model, job.batch, plan, routes_of(plan, allocation), allocation.cpus);
    judged.memory = memory_use(job.model, job.batch, plan, std::ranges::max(allocation.gpus), job.memory);
    judged.fits = (!job.gpu_memory || judged.memory.needed() <= *job.gpu_memory) &&
                  (!job.host_memory || judged.memory.host <= *job.host_memory);
    return judged;
}

std::string obstacle(const Job& job, const ExecutionPlan& plan) {
    const double local = job.batch / plan.dp, passes = static_cast<double>(plan.micro_batches) * plan.accumulation;
    const auto divides = [](double number, double by) { return std::fmod(number, by) == 0; };
    if (!divides(job.batch, plan.dp))
        return fmt::format("{} share {:g} sample{}", counted(std::uint64_t(plan.dp), "replica"), job.batch,
                           job.batch == 1 ? "" : "s");
    if (!divides(local, passes)) return fmt::format("{:g} passes share the {:g} samples of a replica", passes, local);
    if (!divides(job.model.heads, plan.tp))
        return fmt::format("tp={} does not divide {:g} attention heads", plan.tp, job.model.heads);
    if (!divides(job.model.layers, plan.pp * plan.vpp))
        return fmt::format("{} share {}", counted(std::uint64_t(plan.pp * plan.vpp), "stage"),
                           counted(std::uint64_t(job.model.layers), "layer"));
    if (plan.pp == 1 && plan.micro_batches > 1) return "micro-batches (mb) require a pipeline (without one, use ga)";
    if (plan.pp > 1 && plan.accumulation > 1) return "pipelines use micro-batches (mb) instead of ga";
    if (plan.pp > 1 && plan.zero >= 2) return "ZeRO 2 and 3 exclude pipelines";
    if (plan.offload && plan.tp * plan.pp > 1) return "offloading excludes tensor and pipeline parallelism";
    return {};
}

bool possible(const Job& job, const ExecutionPlan& plan) { return obstacle(job, plan).empty(); }

std::vector<ExecutionPlan> possible_plans(const Job& job, int gpus, int per_host) {
    std::vector<ExecutionPlan> plans;
    for (const int tp : divisors(gpus)) {
        if (tp > per_host || std::fmod(job.model.heads, tp) != 0) continue;
        for (const int pp : divisors(gpus / tp)) {
            const int dp = gpus / tp / pp;
            if (job.model.layers % pp != 0 || std::fmod(job.batch, dp) != 0) continue;
            for (const int portion : portions(static_cast<int>(job.batch) / dp)) {
                ExecutionPlan plan;
                plan.dp = dp;
                plan.tp = tp;
                plan.pp = pp;
                (pp > 1 ? plan.micro_batches : plan.accumulation) = portion;
                add_savings(job, plan, plans);
            }
        }
    }
    if (!job.excluded.empty())
        std::erase_if(plans, [&](const ExecutionPlan& plan) { return uses_any(plan, job.excluded); });
    return plans;
}

std::vector<EvaluatedPlan> evaluated_plans(const Job& job, const Allocation& allocation) {
    std::vector<EvaluatedPlan> plans;
    for (const ExecutionPlan& plan : possible_plans(job, allocation.total(), std::ranges::max(allocation.gpus)))
        plans.push_back(evaluate_plan(job, plan, allocation));
    std::ranges::stable_sort(plans, [](const EvaluatedPlan& a, const EvaluatedPlan& b) {
        const double x = a.time.total(), y = b.time.total();
        if (x != y) return x < y;
        const std::string one = to_string(a.plan), other = to_string(b.plan);
        return one.size() != other.size() ? one.size() < other.size() : one < other;
    });
    return plans;
}

std::vector<EvaluatedPlan> best_plans(const Job& job, const Allocation& allocation) {
    std::vector<EvaluatedPlan> plans = evaluated_plans(job, allocation);
    std::erase_if(plans, [](const EvaluatedPlan& plan) { return !plan.fits; });
    return plans;
}

Allocation packed(const Job& job, int gpus, int per_host) {
    Allocation allocation{{}, job.gpus_per_nic, job.cpus};
    for (int left = gpus; left > 0; left -= per_host) allocation.gpus.push_back(std::min(left, per_host));
    return allocation;
}

std::vector<CurvePoint> sensitivity_curve(const Job& job, int first, int last, int per_host) {
    if (first < 1 || last < first || last > 4096 || per_host < 1)
        throw Error{Exit::usage, "a curve runs from 1 to at most 4096 GPUs, not {} to {}", first, last};
    std::vector<CurvePoint> curve;
    std::optional<EvaluatedPlan> fastest;
    double most = 0;
    int used = 0;
    for (int gpus = first; gpus <= last; ++gpus) {
        CurvePoint point;
        point.gpus = gpus;
        const std::vector<EvaluatedPlan> plans = best_plans(job, packed(job, gpus, per_host));
        point.is_possible = !plans.empty() || !possible_plans(job, gpus, std::min(gpus, per_host)).empty();
        if (!plans.empty()) {
            point.best = plans.front();
            const double own = point.best->throughput(job.batch);
            if (!fastest || own > most) most = own, fastest = point.best, used = gpus;
        }
        point.throughput = most;
        point.fastest = fastest;
        point.used = used;
        curve.push_back(point);
    }
    for (std::size_t i = 0; i + 1 < curve.size(); ++i) curve[i].slope = curve[i + 1].throughput - curve[i].throughput;
    return curve;
}

}  // namespace tpx
