// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/simulation.hpp"

#include <cstddef>
#include <vector>

namespace tpx {

/// Numbers by position, of which the next small one is found in logarithmic time.
class FirstSmall {
public:
    std::size_t size() const { return size_; }
    void push_back(Time value);
    void set(std::size_t position, Time value);
    /// The first position from `from` on with at most `most`, which is less than `never`; size() if there is none.
    std::size_t find(std::size_t from, Time most) const;

private:
    void update(std::size_t node);

    std::vector<Time> least_;  // of a binary tree, the root at 1; leaves are in the second half
    std::size_t size_ = 0;
};

/// The waiting jobs in groups. Jobs of a group ask for the same GPUs and for nothing else, so that all or none of them
/// fit. It follows the waiting jobs of one simulation from call to call.
class BackfillQueue {
public:
    struct Group {
        int gpus;
        int kind;
        bool alike;            ///< false for the group of all other jobs
        std::vector<int> ids;  ///< of all jobs that have waited, in order of arrival
        FirstSmall times;      ///< that each of them takes at least; never: it does not wait

        /// The first job after `id` that may take at most `most`; `any` if there is none.
        int next(int id, Time most) const;
    };

    void update(const Simulation& simulation);
    /// A job is started.
    void erase(const Simulation& simulation, int id);
    std::vector<Group>& groups() { return groups_; }

private:
    Group& group_of(const TraceJob& job);
    void insert(const Simulation& simulation, int id);

    std::vector<Group> groups_;
    std::size_t count_ = 0;
    int next_ = 0;  // the first job that has not come
    int interventions_ = 0;
};

}  // namespace tpx
