// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/plan_table.hpp"

#include "lib/model/techniques.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iterator>
#include <numeric>

namespace tpx {
namespace {

double fastest(const std::map<HostShape, double>& times) {
    double best = 0;
    for (const auto& [shape, seconds] : times) best = std::max(best, 1 / seconds);
    return best;
}

// The plan of a name in Rubick's artifact; degrees that the name does not contain are arbitrary.
ExecutionPlan execution_plan(const std::string& name) {
    ExecutionPlan plan;
    if (name.size() == 3 && std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c); })) {
        plan.pp = name[0] - '0';
        plan.tp = name[1] - '0';
    }
    if (name == "ga") plan.accumulation = 2;
    if (name == "gc") plan.recompute = Recompute::full;
    if (name == "zero-dp") plan.zero = 1;
    if (name == "zero-offload") plan.zero = 2, plan.offload = true;
    return plan;
}

}  // namespace

HostShape shape_of(const Grant& grant) {
    HostShape shape;
    for (const GpuShare& share : grant.parts) shape.push_back(share.gpus);
    std::ranges::sort(shape, std::greater{});
    return shape;
}

int PlanTable::find(const std::string& name) const {
    const auto found = std::ranges::find(plans_, name, &Plan::name);
    return found == plans_.end() ? any : static_cast<int>(found - plans_.begin());
}

bool PlanTable::add(const std::string& plan, HostShape shape, double seconds) {
    int index = find(plan);
    if (index == any) {
        const bool digits =
            plan.size() == 3 && std::ranges::all_of(plan, [](unsigned char c) { return std::isdigit(c); });
        plans_.push_back({plan, digits ? plan.substr(0, 2) : plan, !digits, {}, false});
        index = plans() - 1;
    }
    std::ranges::sort(shape, std::greater{});
    if (!(seconds > 0)) return true;
    return plans_[index].seconds[std::accumulate(shape.begin(), shape.end(), 0)].try_emplace(shape, seconds).second;
}

void PlanTable::exclude(std::span<const std::string_view> excluded) {
    for (Plan& plan : plans_) plan.is_excluded = uses_any(execution_plan(plan.name), excluded);
}

double PlanTable::compute(const Plan& plan, const HostShape& shape) const {
    const int gpus = std::accumulate(shape.begin(), shape.end(), 0);
    const auto above = plan.seconds.lower_bound(gpus);
    if (above != plan.seconds.end() && above->first == gpus) {
        if (const auto exact = above->second.find(shape); exact != above->second.end()) return 1 / exact->second;
        const auto distance = [&](const auto& entry) {
            return std::abs(static_cast<long>(entry.first.size()) - static_cast<long>(shape.size()));
        };
        return 1 / std::ranges::min_element(above->second, {}, distance)->second;
    }
    if (!plan.data_parallel || above == plan.seconds.begin()) return 0;
    const auto below = std::prev(above);
    const double low = fastest(below->second);
    if (above == plan.seconds.end()) return low;
    const double way = static_cast<double>(gpus - below->first) / (above->first - below->first);
    return low + way * (fastest(above->second) - low);
}

double PlanTable::rate(int plan, const HostShape& shape) const {
    const auto [entry, is_new] = known_.try_emplace({plan, shape});
    if (is_new) entry->second = compute(plans_[plan], shape);
    return entry->second;
}

PlanSpeed::PlanSpeed(std::shared_ptr<const PlanTable> table, int own, int asked, double own_rate)
    : table_{std::move(table)},
      own_{own},
      asked_{asked},
      own_rate_{own_rate},
      own_measured_{own != any && table_->rate(own, {asked}) > 0} {}

double PlanSpeed::rate(const Grant& grant, const Cluster&) const {
    const HostShape shape = shape_of(grant);
    if (grant.plan > 0) return table_->rate(grant.plan - 1, shape);
    const double measured = own_ == any ? 0 : table_->rate(own_, shape);
    return measured > 0 || grant.gpus() != asked_ ? measured : own_rate_;
}

int PlanSpeed::best_plan(const Grant& grant, const Cluster& cluster, bool own_kind) const {
    int best = 0;
    Grant with = grant;
    with.plan = 0;
    double most = rate(with, cluster);
    for (with.plan = 1; with.plan <= table_->plans(); ++with.plan) {
        if (table_->is_excluded(with.plan - 1)) continue;
        if (own_kind && (own_ == any || !table_->same_kind(own_, with.plan - 1))) continue;
        const double rate_with = rate(with, cluster);
        if (rate_with > most) most = rate_with, best = with.plan;
    }
    return best;
}

}  // namespace tpx
