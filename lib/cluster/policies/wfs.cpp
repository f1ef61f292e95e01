// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/fair_shares.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/sensitivity.hpp"
#include "lib/cluster/simulation.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string_view>
#include <utility>

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
        known_.insert(first);
        const auto with_first = [&](int event) {
            return event != departure && simulation.job(event).arrival == simulation.job(first).arrival;
        };
        for (; !events_.empty() && with_first(events_.front()); events_.pop_front()) known_.insert(events_.front());
    }

    // Orders jobs by arrival, those that came at one moment by name. They are in order of arrival already.
    void sort_by_arrival(const Simulation& simulation, std::vector<int>& ids) const {
        if (!came_together_) return;
        std::ranges::stable_sort(ids, [&](int a, int b) {
            const TraceJob &one = simulation.job(a), &other = simulation.job(b);
            return one.arrival != other.arrival ? one.arrival < other.arrival : before(one.name, other.name);
        });
    }

    // Whether `a` comes before `b`, where numbers in them count by value: "job-2" before "job-10".
    static bool before(std::string_view a, std::string_view b) {
        const auto number_at = [](std::string_view& text) {
            text.remove_prefix(std::min(text.find_first_not_of('0'), text.size()));
            const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
            const std::string_view digits = text.substr(0, end);
            text.remove_prefix(end);
            return std::pair{digits.size(), digits};
        };
        const auto is_digit = [](std::string_view text) { return !text.empty() && text[0] >= '0' && text[0] <= '9'; };
        while (!a.empty() && !b.empty()) {
            if (is_digit(a) && is_digit(b)) {
                const auto one = number_at(a), other = number_at(b);
                if (one != other) return one < other;
            } else {
                if (a[0] != b[0]) return a[0] < b[0];
                a.remove_prefix(1), b.remove_prefix(1);
            }
        }
        return a.size() < b.size();
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
                   held.parts.empty() ? simulation.start(wish.id, std::move(*grant))
                                      : simulation.change(wish.id, std::move(*grant));
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
            if (job.speed->any_number()) continue;
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
        const int gpus = usable(simulation);
        std::vector<int> ids = simulation.running();
        sort_by_arrival(simulation, ids);
        const std::size_t running = ids.size();
        std::vector<FairClaim> claims;
        int least = 0;  // that these and those who are let in need together
        for (const int id : ids) least += claims.emplace_back(claim_of(simulation.job(id))).least;
        std::vector<int> shares = weighted_fair_shares(claims, gpus);
        if (!all_can_run(simulation, ids, shares)) {
            shares.clear();
            for (const int id : ids) shares.push_back(simulation.grant(id).gpus());
        }
        std::vector<int> waiting = simulation.waiting();
        sort_by_arrival(simulation, waiting);
        std::ranges::stable_sort(waiting, std::greater{}, [&](int id) { return simulation.job(id).priority; });
        for (const int id : waiting) {
            if (least >= gpus) break;
            const FairClaim claim = claim_of(simulation.job(id));
            if (!known_.contains(id) || !simulation.within_quota(id, simulation.job(id).gpus)) continue;
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

    // GPUs of hosts that are up.
    static int usable(const Simulation& simulation) {
        int gpus = 0;
        for (std::size_t host = 0; host < simulation.cluster().hosts.size(); ++host)
            if (simulation.pool().up(static_cast<int>(host))) gpus += simulation.cluster().hosts[host].gpus;
        return gpus;
    }

    std::deque<int> events_;                       // that are to be looked at: jobs that came, and departures
    std::set<int> known_;                          // jobs that were looked at
    int next_ = 0;                                 // the first job that has not come
    bool came_together_ = false;                   // some jobs
    std::vector<Wish> wishes_;                     // that are not carried out yet
    std::map<std::pair<int, int>, bool> can_run_;  // by job and GPUs
};

}  // namespace

std::unique_ptr<Policy> make_wfs() { return std::make_unique<Wfs>(); }

}  // namespace tpx
