// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/simulation.hpp"

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace tpx {

/// Runs jobs by a key, the least first, then in order of arrival; run_in_order() says how. It follows the jobs of one
/// simulation from call to call: the keys of waiting jobs are computed once, and jobs that ask for more GPUs than all
/// that could be made free are not looked at.
class KeyedQueue {
public:
    /// Must not be NaN. The key of a job that holds no GPUs changes only with forget().
    using Key = std::function<double(int)>;

    void run(Simulation& simulation, const Key& key);
    /// Forgets all keys.
    void forget() { known_ = false; }

private:
    using Keyed = std::pair<double, int>;  // key and job
    using Jobs = std::set<Keyed>;

    // The waiting jobs that ask for the same number of GPUs, from the next one to be looked at.
    struct Group {
        int gpus;
        Jobs* jobs;
        Jobs::iterator next;
    };

    void update(const Simulation& simulation, const Key& key);
    void insert(const Simulation& simulation, int id, double key);
    void insert_stopped(const Simulation& simulation, const Key& key);
    static Group* first_of(std::vector<Group>& groups, int most);

    std::map<int, Jobs> waiting_;                // by the GPUs that they ask for
    std::vector<double> keys_;                   // of waiting jobs, by job
    std::vector<Keyed> running_;                 // at the last call
    std::vector<int> running_ids_;               // of these
    std::vector<std::pair<Time, int>> leaving_;  // waiting jobs whose GPUs are given back until then
    std::size_t count_ = 0;                      // of waiting jobs
    int next_ = 0;                               // the first job that has not come
    int interventions_ = 0;
    bool known_ = false;
};

}  // namespace tpx
