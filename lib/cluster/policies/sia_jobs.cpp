// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/policies/sia_jobs.hpp"

#include "lib/cluster/sensitivity.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tpx {
namespace {

constexpr double without_gpus = 1.1;
constexpr double steps_of_one = 1 << 22;  // costs are rounded to multiples of 1 / steps_of_one
// The rest of a cost decides between equal sums: the fewest stops, then the most GPUs and the fewest resizes.
constexpr SiaCost units_of_step = 1 << 20, units_of_stop = 1 << 10;
constexpr double steps_of_share = 1 << 20;  // shares are rounded to multiples of 1 / steps_of_share

// What a change leaves of a running job's progress: (age - lost) / (age + restart).
double share_kept(const Simulation& simulation, int id) {
    const JobResult& is = simulation.result(id);
    const auto age = static_cast<double>(simulation.now() - is.start);
    const auto restart = static_cast<double>(simulation.change_delay());
    const double lost = restart + static_cast<double>(is.paused);
    const double kept = std::max(0.01, (age - lost) / (age + restart + 1));
    return std::round(kept * steps_of_share) / steps_of_share;
}

}  // namespace

// The configurations within the job's limits and its tenant's quota that fit into the empty cluster.
std::vector<SiaJobs::Configuration> SiaJobs::configurations_of(const Simulation& simulation, int id) {
    const TraceJob& job = simulation.job(id);
    if (!job.speed->data_parallel()) return {{job.gpus, 1}};
    const bool charged = job.tenant != any && job.guaranteed;
    const int all = charged ? simulation.cluster().tenants[job.tenant].quota : simulation.cluster().gpus();
    const int most = std::min(job.most, all);
    const Sensitivity is{job, simulation.cluster(), Freedom::none, most};
    if (!empty_) empty_.emplace(simulation.cluster());
    std::vector<Configuration> found;
    for (const int gpus : is.useful(job.least, most))
        if (empty_->place(job, gpus)) found.emplace_back(gpus, is.rate(gpus));
    if (found.empty()) return {{job.gpus, 1}};
    const double slowest = found.front().second;
    for (Configuration& configuration : found) configuration.second /= slowest;
    return found;
}

// Costs are relative to that of no GPUs, so that sums stay small however many jobs wait.
std::vector<SiaChoice> SiaJobs::choices_of(const Class& jobs, int held, double kept) {
    std::vector<SiaChoice> choices{{0, held > 0 ? units_of_stop : 0}};
    for (const auto& [gpus, speed] : jobs.configurations) {
        const bool changes = held > 0 && gpus != held;
        const double cost = std::pow(changes ? speed * kept : speed, -0.5) - without_gpus;
        choices.push_back({gpus, std::llround(cost * steps_of_one) * units_of_step - gpus + (changes ? 1 : 0)});
    }
    return choices;
}

SiaJobs::Class& SiaJobs::class_of(const Simulation& simulation, int id) {
    const auto index = static_cast<std::size_t>(id);
    if (class_of_.size() <= index) class_of_.resize(index + 1);
    if (class_of_[index]) return *class_of_[index];
    std::vector<Configuration> configurations = configurations_of(simulation, id);
    const auto [found, is_new] = known_.try_emplace(configurations, nullptr);
    if (is_new) {
        found->second = &classes_.emplace_back();
        found->second->configurations = std::move(configurations);
        found->second->choices = choices_of(*found->second, 0, 1);
    }
    return *(class_of_[index] = found->second);
}

void SiaJobs::forget() {
    empty_.reset();
    classes_.clear();
    known_.clear();
    class_of_.clear();
    is_known_ = is_timeless_ = false;
}

// Adds jobs that have arrived. Returns false if other waiting jobs have changed.
bool SiaJobs::follow(const Simulation& simulation) {
    const std::vector<int>& waiting = simulation.waiting();
    const auto come = std::ranges::lower_bound(waiting, next_);
    if (!is_known_ || waiting_ != static_cast<std::size_t>(come - waiting.begin())) return false;
    for (auto id = come; id != waiting.end(); ++id, ++waiting_) class_of(simulation, *id).waiting.push_back(*id);
    return true;
}

void SiaJobs::update_waiting(const Simulation& simulation) {
    if (simulation.interventions() != interventions_ || !follow(simulation)) {
        for (Class& each : classes_) each.waiting.clear();
        for (const int id : simulation.waiting()) class_of(simulation, id).waiting.push_back(id);
        waiting_ = simulation.waiting().size();
        is_known_ = true;
    }
    if (!simulation.waiting().empty()) next_ = std::max(next_, simulation.waiting().back() + 1);
    interventions_ = simulation.interventions();
}

void SiaJobs::started(int id) {
    has_acted_ = true;  // running_ is out of date
    std::vector<int>& waiting = class_of_[static_cast<std::size_t>(id)]->waiting;
    const auto found = std::ranges::lower_bound(waiting, id);
    is_known_ = is_known_ && found != waiting.end() && *found == id;  // a failure has stopped the job since
    if (!is_known_) return;
    waiting.erase(found);
    --waiting_;
}

void SiaJobs::stopped(int id) {
    has_acted_ = true;
    std::vector<int>& waiting = class_of_[static_cast<std::size_t>(id)]->waiting;
    waiting.insert(std::ranges::lower_bound(waiting, id), id);
    ++waiting_;
}

std::size_t SiaJobs::add_group(std::span<const SiaChoice> choices) {
    if (used_members_ == running_members_.size()) running_members_.emplace_back();
    running_members_[used_members_].clear();
    members_.push_back(&running_members_[used_members_++]);
    groups_.push_back({choices, 0});
    return groups_.size() - 1;
}

void SiaJobs::add_running(const Simulation& simulation, int id) {
    Class& jobs = class_of(simulation, id);
    const int held = simulation.grant(id).gpus();
    const double kept = share_kept(simulation, id);
    std::size_t group = 0;
    if (kept == 1) {
        const auto [found, is_new] = jobs.held_groups.try_emplace(held);
        if (is_new) {
            std::vector<SiaChoice>& choices = jobs.held_choices[held];
            if (choices.empty()) choices = choices_of(jobs, held, 1);
            found->second = add_group(choices);
        }
        group = found->second;
    } else {
        is_timeless_ = false;
        group = add_group(own_choices_.emplace_back(choices_of(jobs, held, kept)));
    }
    ++groups_[group].count;
    running_members_[group].push_back(id);
}

bool SiaJobs::update(const Simulation& simulation) {
    const int before = next_, interventions = interventions_;
    const bool was_known = is_known_;
    update_waiting(simulation);
    const bool has_acted = std::exchange(has_acted_, false);
    if (was_known && !has_acted && is_timeless_ && before == next_ && interventions == interventions_ &&
        usable_ == simulation.usable() && running_ == simulation.running())
        return false;
    usable_ = simulation.usable();
    running_ = simulation.running();
    is_timeless_ = true;
    groups_.clear();
    members_.clear();
    own_choices_.clear();
    used_members_ = 0;
    for (Class& jobs : classes_) jobs.held_groups.clear();
    for (const int id : running_) add_running(simulation, id);
    for (const Class& jobs : classes_) {
        if (jobs.waiting.empty()) continue;
        groups_.push_back(
            {jobs.choices, static_cast<int>(std::min<std::size_t>(jobs.waiting.size(), std::size_t(usable_)))});
        members_.push_back(&jobs.waiting);
    }
    return true;
}

}  // namespace tpx
