// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/fair_shares.hpp"
#include "lib/cluster/job_order.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/sensitivity.hpp"
#include "lib/cluster/simulation.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace tpx {
namespace {

// Elastic weighted fair sharing, Algorithm 1 of Or et al., "VirtualFlow" (MLSys 2022): jobs are let in by priority as
// long as no running job of higher priority gets less for it. Who is to have less gives GPUs back once its last change
// is done; who is to have more waits for them, and nothing else is decided meanwhile. What happens meanwhile is looked
// at afterwards, one arrival after another, as the authors' scheduler does; jobs that came at the same moment are
// looked at together.
class Wfs final : public Policy {
public:
    void schedule(Simulation& simulation) override {
        drop_finished(simulation);
        note_events(simulation);
        while (carry_out(simulation) && !events_.empty()) {
            next_event(simulation);
            decide(simulation);
        }
    }

    void forget() override {
        wishes_.clear();
        can_run_.clear();
    }

    bool resizes() const override { return true; }

private:
    struct Wish {
        int id;
        int gpus;
    };

    static constexpr int departure = -1;  // of a job; or anything else that is no arrival

    // What has happened since the last call: departures first, then jobs that came.
    void note_events(const Simulation& simulation) {
        if (events_.empty() || events_.back() != departure) events_.push_back(departure);
        for (const int id : simulation.waiting())
            if (id >= next_) {
                if (next_ > 0 && simulation.job(next_ - 1).arrival == simulation.job(id).arrival) came_together_ = true;
                events_.push_back(id);
                next_ = id + 1;
            }
    }

    // Takes one event, or all jobs that came at one moment: in which order their trace lists them must not matter.
    void next_event(const Simulation& simulation) {
        const int first = events_.front();
        events_.pop_front();
        if (first == departure) return;
        know(first);
        const auto with_first = [&](int event) {
            return event != departure && simulation.job(event).arrival == simulation.job(first).arrival;
        };
        for (; !events_.empty() && with_first(events_.front()); events_.pop_front()) know(events_.front());
    }

    // Orders jobs that came at one moment by name. `ids` are in order of arrival.
    void sort_by_name(const Simulation& simulation, std::vector<int>& ids) const {
        if (!came_together_) return;
        const auto first = [&](int a, int b) { return arrived_before(simulation.job(a), simulation.job(b)); };
        for (auto begin = ids.begin(); begin != ids.end();) {
            const Time arrival = simulation.job(*begin).arrival;
            const auto end =
                std::find_if(begin + 1, ids.end(), [&](int id) { return simulation.job(id).arrival != arrival; });
            if (end - begin > 1) std::stable_sort(begin, end, first);
            begin = end;
        }
    }

    void know(int id) {
        if (known_.size() <= static_cast<std::size_t>(id)) known_.resize(static_cast<std::size_t>(id) + 1);
        known_[static_cast<std::size_t>(id)] = true;
    }

    bool knows(int id) const {
        return static_cast<std::size_t>(id) < known_.size() && known_[static_cast<std::size_t>(id)];
    }

    void drop_finished(const Simulation& simulation) {
        std::erase_if(wishes_, [&](const Wish& wish) { return simulation.result(wish.id).finish != never; });
    }

    // Takes GPUs from those who are to have less and gives them to those who are to have more; false while some still
    // wait.
    bool carry_out(Simulation& simulation) {
        while (carry_out_some(simulation) && !wishes_.empty()) {
        }  // what one gives back at once another one takes
        // Where GPUs of the right kind will never come, as after a failure, it is decided anew.
        if (!wishes_.empty() && simulation.changes() == 0) wishes_.clear();
        return wishes_.empty();
    }

    // One look at all wishes; false when none of them could be met.
    bool carry_out_some(Simulation& simulation) {
        return std::erase_if(wishes_, [&](const Wish& wish) {
                   const Grant& held = simulation.grant(wish.id);
                   if (wish.gpus <= held.gpus()) {
                       if (simulation.resizing(wish.id)) return false;
                       if (wish.gpus < held.gpus()) simulation.change(wish.id, GpuPool::part_of(held, wish.gpus));
                       return true;
                   }
                   if (!simulation.within_quota(wish.id, wish.gpus)) return false;
                   auto grant = held.parts.empty() ? simulation.place(wish.id, wish.gpus)
                                                   : simulation.pool().place_more(simulation.job(wish.id), held,
                                                                                  wish.gpus - held.gpus());
                   if (!grant) return false;
                   if (!held.parts.empty()) {
                       simulation.change(wish.id, std::move(*grant));
                       return true;
                   }
                   queue_.remove(simulation, wish.id);
                   simulation.start(wish.id, std::move(*grant));
                   return true;
               }) > 0;
    }

    // A job demands what it asks for, or as much as its limits say; under a quota never more than it asks for.
    static FairClaim claim_of(const TraceJob& job) {
        const bool more = job.own_limits && (job.tenant == any || !job.guaranteed);
        return {job.priority, more ? job.most : std::min(job.gpus, job.most), job.least};
    }

    // Whether one of the first `running` jobs that has a higher priority than `priority` would have less.
    static bool costs_others(const std::vector<FairClaim>& claims, const std::vector<int>& before,
                             const std::vector<int>& after, std::size_t running, double priority) {
        for (std::size_t i = 0; i < running; ++i)
            if (claims[i].priority > priority && after[i] < before[i]) return true;
        return false;
    }

    // Whether every job can use its share: those that are cut by tensors or stages need a certain number.
    bool all_can_run(const Simulation& simulation, const std::vector<int>& ids, const std::vector<int>& shares) {
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const TraceJob& job = simulation.job(ids[i]);
            if (job.speed->accepts_any_gpu_count()) continue;
            const auto [known, is_new] = can_run_.try_emplace({ids[i], shares[i]});
            if (is_new) {
                const Grant grant = packed_grant(job, simulation.cluster(), shares[i]);
                known->second = !grant.parts.empty() && job.speed->rate(grant, simulation.cluster()) > 0;
            }
            if (!known->second) return false;
        }
        return true;
    }

    // Who has how many from now on.
    void decide(Simulation& simulation) {
        const int gpus = simulation.usable();
        std::vector<int> ids = simulation.running();
        sort_by_name(simulation, ids);
        const std::size_t running = ids.size();
        std::vector<FairClaim> claims;
        int least = 0;  // that these and those who are let in need together
        for (const int id : ids) least += claims.emplace_back(claim_of(simulation.job(id))).least;
        std::vector<int> shares = weighted_fair_shares(claims, gpus);
        if (!all_can_run(simulation, ids, shares)) {
            shares.clear();
            for (const int id : ids) shares.push_back(simulation.grant(id).gpus());
        }
        for (const int id : queue_.update(simulation)) {
            if (least >= gpus) break;
            const FairClaim claim = claim_of(simulation.job(id));
            if (!knows(id) || !simulation.within_quota(id, simulation.job(id).gpus)) continue;
            if (least + claim.least > gpus) break;
            claims.push_back(claim);
            const std::vector<int> with = weighted_fair_shares(claims, gpus);
            if (costs_others(claims, shares, with, running, claims.back().priority)) break;
            ids.push_back(id);
            if (all_can_run(simulation, ids, with)) {
                shares = with;
                least += claim.least;
                continue;
            }
            ids.pop_back();
            claims.pop_back();
        }
        apply(simulation, ids, shares);
    }

    void apply(Simulation& simulation, const std::vector<int>& ids, const std::vector<int>& shares) {
        for (std::size_t i = 0; i < ids.size(); ++i) {
            if (shares[i] != simulation.grant(ids[i]).gpus()) wishes_.push_back({ids[i], shares[i]});
        }
    }

    std::deque<int> events_;                       // that are to be looked at: jobs that came, and departures
    std::vector<bool> known_;                      // jobs that were looked at
    PriorityOrder queue_{true};                    // that wait
    int next_ = 0;                                 // the first job that has not come
    bool came_together_ = false;                   // some jobs
    std::vector<Wish> wishes_;                     // that are not carried out yet
    std::map<std::pair<int, int>, bool> can_run_;  // by job and GPUs
};

}  // namespace

std::unique_ptr<Policy> make_wfs() { return std::make_unique<Wfs>(); }

}  // namespace tpx
