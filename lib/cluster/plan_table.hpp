// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/job.hpp"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// GPUs of each host, most first.
using HostShape = std::vector<int>;

HostShape shape_of(const Grant& grant);

/// Measured seconds of a step of one model by plan and placement. Plans are named as Rubick's artifact does: a word for
/// data parallelism of some kind, or three digits, the degrees of pipeline, tensor and data parallelism.
class PlanTable {
public:
    /// Seconds that are not positive: the plan does not fit there. False, and nothing is added, where the plan has
    /// seconds there already.
    bool add(const std::string& plan, HostShape shape, double seconds);

    /// Excludes the current plans that use any of `excluded`; see lib/model/techniques.hpp.
    void exclude(std::span<const std::string_view> excluded);
    bool is_excluded(int plan) const { return plans_[plan].is_excluded; }

    int plans() const { return static_cast<int>(plans_.size()); }
    const std::string& name(int plan) const { return plans_[plan].name; }
    /// The number of the plan called `name`, or any.
    int find(const std::string& name) const;
    /// True for plans with data parallelism alone.
    bool data_parallel(int plan) const { return plans_[plan].data_parallel; }
    /// Whether two plans differ in the degree of data parallelism at most.
    bool same_kind(int a, int b) const { return plans_[a].kind == plans_[b].kind; }

    /// Steps a second: as measured; where that placement was not, as on the placement of as many GPUs with the nearest
    /// number of hosts; else, for data parallelism, on a straight line between the next numbers of GPUs. 0 otherwise.
    double rate(int plan, const HostShape& shape) const;

private:
    struct Plan {
        std::string name;
        std::string kind;
        bool data_parallel;
        std::map<int, std::map<HostShape, double>> seconds;  // by number of GPUs
        bool is_excluded = false;
    };

    double compute(const Plan& plan, const HostShape& shape) const;

    std::vector<Plan> plans_;
    mutable std::map<std::pair<int, HostShape>, double> known_;
};

/// A job whose step times are measured. Plan 0 is its own, plan i + 1 the table's plan i.
class PlanSpeed final : public Speed {
public:
    /// `own_rate` is that of its own plan with the `asked` GPUs where the table does not have it.
    PlanSpeed(std::shared_ptr<const PlanTable> table, int own, int asked, double own_rate);
    double rate(const Grant& grant, const Cluster& cluster) const override;
    int best_plan(const Grant& grant, const Cluster& cluster, bool own_kind) const override;
    std::string_view plan_name(int plan) const override {
        return plan > 0 ? std::string_view{table_->name(plan - 1)} : std::string_view{};
    }
    bool data_parallel() const override { return own_ == any || table_->data_parallel(own_); }
    const void* family() const override { return own_measured_ ? table_.get() : nullptr; }

private:
    std::shared_ptr<const PlanTable> table_;
    int own_;
    int asked_;
    double own_rate_;
    bool own_measured_;
};

}  // namespace tpx
