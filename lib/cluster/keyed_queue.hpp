// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/simulation.hpp"

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace tpx {

/// Runs the jobs of one simulation as run_in_order() does, in ascending order of a key, then in order of arrival. The
/// queue is kept from call to call: the key of a waiting job is computed only once, and jobs that request more GPUs
/// than could be freed are skipped without being visited.
class KeyedQueue {
public:
    /// Returns the key of a job, which must not be NaN. If the key of a job without GPUs changes, call forget().
    using Key = std::function<double(int)>;

    void run(Simulation& simulation, const Key& key);
    /// Forgets all keys.
    void forget() { known_ = false; }

private:
    using Keyed = std::pair<double, int>;  // key and job
    using Jobs = std::set<Keyed>;

    // The waiting jobs that request the same number of GPUs, and the next one to visit.
    struct Group {
        int gpus;
        Jobs* jobs;
        Jobs::iterator next;
    };

    void update(const Simulation& simulation, const Key& key);
    void insert(const Simulation& simulation, int id, double key);
    void insert_stopped(const Simulation& simulation, const Key& key);
    static Group* first_of(std::vector<Group>& groups, int most);

    std::map<int, Jobs> waiting_;                // by the number of GPUs that they request
    std::vector<double> keys_;                   // of waiting jobs, by job
    std::vector<Keyed> running_;                 // at the last call
    std::vector<int> running_ids_;               // of these
    std::vector<std::pair<Time, int>> leaving_;  // stopped jobs, and when they have released their GPUs
    std::size_t count_ = 0;                      // of waiting jobs
    int next_ = 0;                               // the first job that has not arrived
    int interventions_ = 0;
    bool known_ = false;
};

}  // namespace tpx
