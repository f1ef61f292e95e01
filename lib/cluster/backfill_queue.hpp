// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/simulation.hpp"

#include <cstddef>
#include <vector>

namespace tpx {

/// A list of times in which the next time within a limit is found in logarithmic time.
class FirstSmall {
public:
    std::size_t size() const { return size_; }
    void push_back(Time value);
    void set(std::size_t position, Time value);
    /// The first position, `from` or later, of a time of at most `most`; size() if there is none. Precondition: `most`
    /// is less than `never`.
    std::size_t find(std::size_t from, Time most) const;

private:
    void update(std::size_t node);

    std::vector<Time> least_;  // minima of the nodes of a binary tree: the root is at 1, leaves are in the second half
    std::size_t size_ = 0;
};

/// The waiting jobs of one simulation in groups, which are kept from call to call. Jobs of a group request the same
/// number and kind of GPUs and no other resource, so that either all of them fit or none. One further group has all
/// other jobs.
class BackfillQueue {
public:
    struct Group {
        int gpus;
        int kind;
        bool alike;            ///< false for the group of all other jobs
        std::vector<int> ids;  ///< of its jobs that wait or have waited, in order of arrival
        FirstSmall times;      ///< lower bound of each job's run time; never: the job does not wait

        /// The first job after `id` whose lower bound is at most `most`; `any` if there is none.
        int next(int id, Time most) const;
    };

    /// Adds jobs that have arrived. After failures or scripted changes, forms all groups again.
    void update(const Simulation& simulation);
    /// Removes a job, which is about to start.
    void erase(const Simulation& simulation, int id);
    std::vector<Group>& groups() { return groups_; }

private:
    Group& group_of(const TraceJob& job);
    void insert(const Simulation& simulation, int id);

    std::vector<Group> groups_;
    std::size_t count_ = 0;
    int next_ = 0;  // the first job that has not arrived
    int interventions_ = 0;
};

}  // namespace tpx
