// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/gpu_pool.hpp"
#include "lib/cluster/policies/sia_program.hpp"
#include "lib/cluster/simulation.hpp"

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tpx {

/// The jobs of one simulation in groups with equal choices: waiting jobs by their configurations, running jobs also by
/// the GPUs that they hold. It follows the simulation from call to call.
class SiaJobs {
public:
    /// Brings the groups up to date. Returns false if nothing has changed since the last call, so that the best choices
    /// are still the best.
    bool update(const Simulation& simulation);
    /// Forgets everything that was computed from jobs, hosts and rates.
    void forget();

    std::span<const SiaGroup> groups() const { return groups_; }
    /// The jobs of a group, in order of arrival; of a group of waiting jobs, there may be more than its count.
    std::span<const int> jobs(std::size_t group) const { return *members_[group]; }
    bool are_running(std::size_t group) const { return group < used_members_; }

    /// Record that the policy has started or stopped a job.
    void started(int id);
    void stopped(int id);

private:
    using Configuration = std::pair<int, double>;  // GPUs, and speed in units of the slowest configuration

    // Jobs with the same configurations.
    struct Class {
        std::vector<Configuration> configurations;
        std::vector<SiaChoice> choices;                      // of waiting jobs
        std::map<int, std::vector<SiaChoice>> held_choices;  // of running jobs, by their GPUs, if changes are free
        std::map<int, std::size_t> held_groups;              // by their GPUs, in this decision
        std::vector<int> waiting;                            // in order of arrival
    };

    Class& class_of(const Simulation& simulation, int id);
    std::vector<Configuration> configurations_of(const Simulation& simulation, int id);
    static std::vector<SiaChoice> choices_of(const Class& jobs, int held, double kept);
    void update_waiting(const Simulation& simulation);
    bool follow(const Simulation& simulation);
    void add_running(const Simulation& simulation, int id);
    std::size_t add_group(std::span<const SiaChoice> choices);

    std::optional<GpuPool> empty_;
    std::deque<Class> classes_;
    std::map<std::vector<Configuration>, Class*> known_;
    std::vector<Class*> class_of_;  // by job; null: not known yet
    std::size_t waiting_ = 0;       // number of jobs in the classes
    std::vector<int> running_;      // at the last call
    int next_ = 0;                  // the first job that has not arrived
    int usable_ = -1;
    int interventions_ = 0;
    bool is_known_ = false;     // the classes contain all waiting jobs
    bool has_acted_ = false;    // the policy has started or stopped a job since the last call
    bool is_timeless_ = false;  // the costs of the last call do not depend on the time

    std::vector<SiaGroup> groups_;
    std::vector<const std::vector<int>*> members_;
    std::deque<std::vector<int>> running_members_;  // of groups of running jobs
    std::size_t used_members_ = 0;
    std::deque<std::vector<SiaChoice>> own_choices_;  // of running jobs whose changes have a cost
};

}  // namespace tpx
