// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/max_min.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace tpx {
namespace {

// Gavel's max-min fairness over kinds of GPUs. The linear program says what share of time each job should have on each
// kind; in rounds of six minutes those come first whose share is largest for the rounds that they have had there.
// Shares are computed anew when jobs have come or gone.
class Gavel final : public Policy {
public:
    void schedule(Simulation& simulation) override {
        round_ = std::max(shortest, 4 * simulation.start_delay());
        const Time next = (simulation.now() / round_ + 1) * round_;
        const Time over = simulation.now() - std::exchange(due_, next);
        const bool late = over >= 0 && over < simulation.quantum();
        if (simulation.now() % round_ != 0 && !late) return simulation.wake(next);
        if (find_jobs(simulation)) compute_shares(simulation);
        run(simulation, choose(simulation));
        simulation.wake(next);
    }

private:
    static constexpr Time shortest = 360 * second;

    // Those that ran in the last round in the order in which they were chosen, then those that wait; true when there
    // are others than before.
    bool find_jobs(const Simulation& simulation) {
        std::vector<int> jobs;
        for (const int id : chosen_)
            if (simulation.result(id).finish == never) jobs.push_back(id);
        std::vector<int> rest = jobs_;
        rest.insert(rest.end(), simulation.waiting().begin(), simulation.waiting().end());
        for (const int id : rest)
            if (simulation.result(id).finish == never && std::ranges::count(jobs, id) == 0) jobs.push_back(id);
        const auto sorted = [](std::vector<int> ids) {
            std::ranges::sort(ids);
            return ids;
        };
        const bool same = sorted(jobs) == sorted(jobs_);
        if (same) return false;
        jobs_ = std::move(jobs);
        return true;
    }

    void compute_shares(const Simulation& simulation) {
        uses_.clear();
        rounds_.clear();
        std::vector<int> counts;
        const int kinds = static_cast<int>(simulation.cluster().kinds.size());
        for (int kind = 0; kind < kinds; ++kind) counts.push_back(simulation.cluster().gpus(kind));
        for (const int id : jobs_) {
            const TraceJob& job = simulation.job(id);
            KindUse use{job.priority, {}, {}};
            for (int kind = 0; kind < kinds; ++kind) {
                const bool allowed = job.kind == any || job.kind == kind;
                const auto [gpus, rate] = job.speed->on_kind(kind, job.gpus);
                const bool fits = allowed && rate > 0 && gpus <= counts[kind];
                use.gpus.push_back(fits ? gpus : 0);
                use.rates.push_back(fits ? rate : 0);
            }
            uses_.push_back(std::move(use));
        }
        shares_ = max_min_shares(uses_, counts);
    }

    struct Candidate {
        double urgency;
        std::size_t index;
        int kind;
    };

    // The kind of each job in the next round; any: none.
    std::vector<int> choose(const Simulation& simulation) {
        std::vector<Candidate> candidates;
        const int kinds = static_cast<int>(simulation.cluster().kinds.size());
        for (std::size_t i = jobs_.size(); i-- > 0;) {  // of equally urgent ones the last comes first
            for (int kind = 0; kind < kinds; ++kind) {
                const double share = shares_[i][kind];
                if (share <= 0) continue;
                const auto had = rounds_.find({jobs_[i], kind});
                candidates.push_back({had == rounds_.end() ? HUGE_VAL : share / had->second, i, kind});
            }
        }
        std::ranges::stable_sort(candidates, std::greater{}, &Candidate::urgency);
        std::vector<int> free, chosen(jobs_.size(), any);
        for (int kind = 0; kind < kinds; ++kind) free.push_back(usable(simulation, kind));
        chosen_.clear();
        for (const Candidate& candidate : candidates) {
            const int gpus = uses_[candidate.index].gpus[candidate.kind];
            if (chosen[candidate.index] != any || free[candidate.kind] < gpus) continue;
            chosen[candidate.index] = candidate.kind;
            chosen_.push_back(jobs_[candidate.index]);
            free[candidate.kind] -= gpus;
            ++rounds_[{jobs_[candidate.index], candidate.kind}];
        }
        return chosen;
    }

    static int usable(const Simulation& simulation, int kind) {
        int gpus = 0;
        for (std::size_t host = 0; host < simulation.cluster().hosts.size(); ++host)
            if (simulation.cluster().hosts[host].kind == kind && simulation.pool().up(static_cast<int>(host)))
                gpus += simulation.cluster().hosts[host].gpus;
        return gpus;
    }

    void run(Simulation& simulation, const std::vector<int>& chosen) {
        const auto kind_of = [&](int id) {
            const Grant& held = simulation.grant(id);
            return held.parts.empty() ? any : simulation.cluster().hosts[held.parts[0].host].kind;
        };
        for (std::size_t i = 0; i < jobs_.size(); ++i)
            if (kind_of(jobs_[i]) != any && kind_of(jobs_[i]) != chosen[i]) simulation.stop(jobs_[i]);
        for (std::size_t i = 0; i < jobs_.size(); ++i) {
            if (chosen[i] == any || kind_of(jobs_[i]) != any) continue;
            const int gpus = uses_[i].gpus[chosen[i]];
            TraceJob there = simulation.job(jobs_[i]);
            there.kind = chosen[i];
            if (!simulation.within_quota(jobs_[i], gpus)) continue;
            if (auto grant = simulation.pool().place(there, gpus)) simulation.start(jobs_[i], std::move(*grant));
        }
    }

    Time round_ = shortest;
    Time due_ = 0;  // when the next round begins
    std::vector<int> jobs_;
    std::vector<int> chosen_;  // of the last round, most urgent first
    std::vector<KindUse> uses_;
    std::vector<std::vector<double>> shares_;
    std::map<std::pair<int, int>, int> rounds_;  // that a job has had on a kind
};

}  // namespace

std::unique_ptr<Policy> make_gavel() { return std::make_unique<Gavel>(); }

}  // namespace tpx
