// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/keyed_queue.hpp"

#include "lib/cluster/job_order.hpp"

#include <algorithm>
#include <span>

namespace tpx {

void KeyedQueue::insert(const Simulation& simulation, int id, double key) {
    if (keys_.size() <= static_cast<std::size_t>(id)) keys_.resize(static_cast<std::size_t>(id) + 1);
    keys_[static_cast<std::size_t>(id)] = key;
    waiting_[simulation.job(id).gpus].emplace(key, id);
    ++count_;
    if (simulation.release_delay() > 0 && simulation.result(id).stops > 0)
        leaving_.emplace_back(simulation.now() + simulation.release_delay(), id);
}

// Adds jobs that have arrived. After failures or scripted changes, adds all waiting jobs again; run() itself records
// the jobs that it starts and stops. Computes the keys of stopped jobs again until their GPUs are released, because
// they attain service until then.
void KeyedQueue::update(const Simulation& simulation, const Key& key) {
    const std::vector<int>& waiting = simulation.waiting();
    const auto come = std::ranges::lower_bound(waiting, next_);
    const auto older = static_cast<std::size_t>(come - waiting.begin());
    if (!known_ || older != count_ || simulation.interventions() != interventions_) {
        waiting_.clear();
        leaving_.clear();
        count_ = 0;
        for (const int id : waiting) insert(simulation, id, key(id));
    } else {
        for (auto id = come; id != waiting.end(); ++id) insert(simulation, *id, key(*id));
    }
    if (!waiting.empty()) next_ = std::max(next_, waiting.back() + 1);
    interventions_ = simulation.interventions();
    known_ = true;
    for (const auto& [until, id] : leaving_) {
        Jobs& jobs = waiting_[simulation.job(id).gpus];
        double& known = keys_[static_cast<std::size_t>(id)];
        if (jobs.erase({known, id}) > 0) jobs.emplace(known = key(id), id);
    }
    std::erase_if(leaving_, [&](const auto& is) { return is.first < simulation.now(); });
}

// The group whose next job comes first, among groups that request at most `most` GPUs; null if there is none.
KeyedQueue::Group* KeyedQueue::first_of(std::vector<Group>& groups, int most) {
    Group* first = nullptr;
    for (Group& group : groups)
        if (group.gpus <= most && group.next != group.jobs->end() && (!first || *group.next < *first->next))
            first = &group;
    return first;
}

// Adds the jobs that ran when run() began and have been stopped since.
void KeyedQueue::insert_stopped(const Simulation& simulation, const Key& key) {
    for (const int id : running_ids_)
        if (simulation.grant(id).parts.empty()) insert(simulation, id, key(id));
}

void KeyedQueue::run(Simulation& simulation, const Key& key) {
    update(simulation, key);
    running_.clear();
    for (const int id : simulation.running()) running_.emplace_back(key(id), id);
    std::ranges::sort(running_);
    running_ids_.clear();
    int later = 0;  // GPUs of running jobs that come later
    for (const auto& [is, id] : running_) {
        running_ids_.push_back(id);
        later += simulation.grant(id).gpus();
    }
    std::vector<Group> groups;
    for (auto& [gpus, jobs] : waiting_) groups.push_back({gpus, &jobs, jobs.begin()});
    for (std::size_t next = 0;;) {
        const int most = simulation.pool_after_releases().free() + later;  // never grows during run()
        Group* group = first_of(groups, most);
        if (next < running_.size() && (group == nullptr || running_[next] < *group->next)) {
            const int id = running_ids_[next++];
            if (const int gpus = simulation.grant(id).gpus(); gpus > 0) {
                later -= gpus;
                continue;
            }
            if (simulation.job(id).gpus > most) continue;  // it was stopped for another job
            if (!run_waiting(simulation, id, std::span{running_ids_}.subspan(next), later)) break;
        } else if (group != nullptr) {
            const int id = group->next->second;
            const bool should_continue = run_waiting(simulation, id, std::span{running_ids_}.subspan(next), later);
            if (simulation.grant(id).parts.empty()) {
                ++group->next;
            } else {
                group->next = group->jobs->erase(group->next);
                --count_;
            }
            if (!should_continue) break;
        } else {
            break;
        }
    }
    insert_stopped(simulation, key);
}

}  // namespace tpx
