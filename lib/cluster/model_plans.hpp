// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/plan_table.hpp"
#include "lib/model/evaluate_plan.hpp"
#include "lib/model/run.hpp"

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

namespace tpx {

/// The execution plans of one model, numbered as they come up, and how fast they are by the formulas of
/// tpx-throughput(5).
class ModelPlans {
public:
    explicit ModelPlans(Job job) : job_{std::move(job)} {}

    /// From now on best() chooses no plan that uses any of `excluded`; see lib/model/techniques.hpp.
    void exclude(std::vector<std::string_view> excluded) { job_.excluded = std::move(excluded); }

    const Job& job() const { return job_; }
    const ExecutionPlan& plan(int number) const { return plans_.at(static_cast<std::size_t>(number)).plan; }
    /// As to_string() writes it.
    const std::string& name(int number) const { return plans_.at(static_cast<std::size_t>(number)).name; }

    /// Steps a second of `plan` on hosts of such a shape, whether it fits into memory or not; 0 where the plan has
    /// another number of GPUs.
    double rate(const ExecutionPlan& plan, const HostShape& shape) const;
    /// The number of the fastest plan that fits there; any where none does.
    int best(const HostShape& shape) const;
    /// The same of plans that differ from `own` only in data parallelism, micro-batches and passes.
    int best_like(const ExecutionPlan& own, const HostShape& shape) const;

    /// A step of `plan` on hosts of such a shape was measured. From now on, its measured time replaces the predicted
    /// one, and the parameters are fitted to all measured steps; what they were before is the prior. Returns whether
    /// anything was learned.
    bool observe(const ExecutionPlan& plan, const HostShape& shape, double seconds) const;

    /// The same plans, with the same numbers, on hosts with `cpus` cores for each GPU, and all that was observed.
    std::shared_ptr<const ModelPlans> with_cpus(double cpus) const;

private:
    struct Named {
        ExecutionPlan plan;
        std::string name;
    };
    /// A plan's number, hosts, and cores for each GPU.
    using Measurement = std::tuple<int, HostShape, double>;

    Allocation allocation(const HostShape& shape) const { return {shape, job_.gpus_per_nic, job_.cpus}; }
    int number(const ExecutionPlan& plan) const;

    double seconds(const EvaluatedPlan& judged, const HostShape& shape) const;

    mutable Job job_;
    mutable std::optional<Belief> prior_;
    mutable std::vector<Run> runs_;  // that were observed
    mutable std::map<Measurement, double> measured_;
    mutable std::deque<Named> plans_;  // names stay where they are while plans come up
    mutable std::map<HostShape, int> best_;
    mutable std::map<std::pair<int, HostShape>, int> like_;
};

/// A job whose step times are predicted. Plan 0 is its own, on other numbers of GPUs with as much data parallelism as
/// there is room for; plan i + 1 is the model's plan i.
class ModelSpeed final : public Speed {
public:
    ModelSpeed(std::shared_ptr<const ModelPlans> plans, ExecutionPlan own) : plans_{std::move(plans)}, own_{own} {}
    double rate(const Grant& grant, const Cluster& cluster) const override;
    int best_plan(const Grant& grant, const Cluster& cluster, bool own_kind) const override;
    std::string_view plan_name(int plan) const override {
        return plan > 0 ? std::string_view{plans_->name(plan - 1)} : std::string_view{};
    }
    bool data_parallel() const override { return own_.tp * own_.pp * own_.cp == 1; }
    const void* family() const override { return plans_.get(); }
    int plan_number(const Grant& grant) const override;
    std::shared_ptr<const Speed> with_cpus(double cpus, const std::shared_ptr<const Speed>& believed) const override;
    bool observe(const Grant& grant, double rate) const override;

    const std::shared_ptr<const ModelPlans>& plans() const { return plans_; }
    const ExecutionPlan& own() const { return own_; }
    /// The plan under which the job runs on `grant`; nothing if it cannot.
    std::optional<ExecutionPlan> plan_on(const Grant& grant) const;

private:
    std::shared_ptr<const ModelPlans> plans_;
    ExecutionPlan own_;
};

/// The rates that `truth` predicts of the plans that policies choose by what `believed` predicts.
class TrueSpeed final : public Speed {
public:
    TrueSpeed(std::shared_ptr<const ModelPlans> truth, std::shared_ptr<const ModelSpeed> believed)
        : truth_{std::move(truth)}, believed_{std::move(believed)} {}
    double rate(const Grant& grant, const Cluster& cluster) const override;
    /// `believed` must be a ModelSpeed.
    std::shared_ptr<const Speed> with_cpus(double cpus, const std::shared_ptr<const Speed>& believed) const override;

    const ModelPlans& truth() const { return *truth_; }

private:
    std::shared_ptr<const ModelPlans> truth_;
    std::shared_ptr<const ModelSpeed> believed_;
};

}  // namespace tpx
