// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/in_order.hpp"
#include "lib/cluster/max_min.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace tpx {
namespace {

// Gavel's max-min fairness over kinds of GPUs. The linear program says what share of time each job should have on each
// kind; in rounds of six minutes those come first whose share is largest for the rounds that they have had there.
// Shares are computed anew when jobs have come or gone. With mixed kinds, as in Or et al., "VirtualFlow" (MLSys 2022),
// a job that was chosen takes idle GPUs of other kinds, too, if it knows how to use them.
struct GavelVariant {
    bool mixed;      // kinds
    bool simulator;  // with what VirtualFlow's simulator does differently, to reproduce its runs
};

class Gavel final : public Policy {
public:
    explicit Gavel(GavelVariant variant) : variant_{variant} {}

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

    bool find_jobs(const Simulation& simulation) {
        if (variant_.simulator) return find_jobs_of_simulator(simulation);
        std::vector<int> jobs = all_jobs(simulation);
        if (jobs == jobs_) return false;
        jobs_ = std::move(jobs);
        return true;
    }

    // Those that ran in the last round in the order in which they were chosen, then those that wait as they stand in
    // their heap; true when there are others than before. A job whose last step ends at this very moment is not known
    // to be done when the round is decided.
    bool find_jobs_of_simulator(const Simulation& simulation) {
        const auto is_done = [&](int id) {
            return ended_.contains(id) || simulation.result(id).finish < simulation.now();
        };
        std::erase_if(chosen_, is_done);
        std::erase_if(queue_, is_done);
        for (const int id : simulation.waiting())
            if (id >= next_) push(simulation, id), next_ = id + 1;
        std::vector<int> jobs = chosen_;
        jobs.insert(jobs.end(), queue_.begin(), queue_.end());
        std::vector<int> sorted = jobs;
        std::ranges::sort(sorted);
        if (sorted == known_) return false;
        known_ = std::move(sorted);
        jobs_ = std::move(jobs);
        return true;
    }

    // VirtualFlow's simulator keeps who waits in a heap by priority, and takes them as they stand in it; who is done
    // leaves a gap that is closed without ordering the rest anew.
    void push(const Simulation& simulation, int id) {
        queue_.push_back(id);
        for (std::size_t at = queue_.size() - 1; at > 0; at = (at - 1) / 2) {
            int &here = queue_[at], &above = queue_[(at - 1) / 2];
            if (simulation.job(here).priority <= simulation.job(above).priority) return;
            std::swap(here, above);
        }
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
                const bool fits = allowed && rate > 0 && gpus <= std::min(counts[kind], job.most);
                use.gpus.push_back(fits ? gpus : 0);
                use.rates.push_back(fits ? rate : 0);
            }
            uses_.push_back(std::move(use));
        }
        shares_ = variant_.simulator ? max_min_shares(uses_, counts) : fair_time_shares(uses_, counts);
    }

    struct Candidate {
        double urgency;
        std::size_t index;
        int kind;
    };

    using Counts = std::vector<int>;  // GPUs of each kind

    // What each job has in the next round; nothing where it has none.
    std::vector<Counts> choose(const Simulation& simulation) {
        std::vector<Candidate> candidates;
        const int kinds = static_cast<int>(simulation.cluster().kinds.size());
        for (std::size_t n = 0; n < jobs_.size(); ++n) {  // of equally urgent ones, the simulator takes the last one
            const std::size_t i = variant_.simulator ? jobs_.size() - 1 - n : n;
            for (int kind = 0; kind < kinds; ++kind) {
                const double share = shares_[i][kind];
                if (share <= 0) continue;
                const auto had = rounds_.find({jobs_[i], kind});
                candidates.push_back({had == rounds_.end() ? HUGE_VAL : share / had->second, i, kind});
            }
        }
        std::ranges::stable_sort(candidates, std::greater{}, &Candidate::urgency);
        std::vector<std::size_t> order;
        std::vector<int> free, chosen(jobs_.size(), any);
        for (int kind = 0; kind < kinds; ++kind) free.push_back(usable(simulation, kind));
        chosen_.clear();
        queue_.clear();
        for (const Candidate& candidate : candidates) {
            const int gpus = uses_[candidate.index].gpus[candidate.kind];
            if (chosen[candidate.index] != any || free[candidate.kind] < gpus) continue;
            chosen[candidate.index] = candidate.kind;
            order.push_back(candidate.index);
            free[candidate.kind] -= gpus;
            ++rounds_[{jobs_[candidate.index], candidate.kind}];
        }
        std::vector<Counts> counts(jobs_.size());
        for (const std::size_t index : order) {
            chosen_.push_back(jobs_[index]);
            counts[index].resize(free.size());
            counts[index][chosen[index]] = uses_[index].gpus[chosen[index]];
            if (variant_.mixed)
                add_idle(simulation.job(jobs_[index]), uses_[index].rates[chosen[index]], counts[index], free);
        }
        for (std::size_t i = 0; variant_.simulator && i < jobs_.size(); ++i)
            if (chosen[i] == any) push(simulation, jobs_[i]);
        return counts;
    }

    // Has `job`, which has `counts` and with them the rate `most`, use other kinds that are free as well as it can.
    static void add_idle(const TraceJob& job, double most, Counts& counts, Counts& free) {
        const Mix* best = nullptr;
        for (const Mix& mix : job.speed->mixes()) {
            const int gpus = std::accumulate(mix.gpus.begin(), mix.gpus.end(), 0);
            bool fits = mix.rate > most && gpus >= job.least && gpus <= job.most;
            for (std::size_t kind = 0; kind < free.size(); ++kind) {
                const bool own = counts[kind] > 0;
                fits = fits && mix.gpus[kind] <= counts[kind] + free[kind] && (!own || mix.gpus[kind] > 0);
            }
            if (fits) best = &mix, most = mix.rate;
        }
        if (!best) return;
        for (std::size_t kind = 0; kind < free.size(); ++kind) free[kind] += counts[kind] - best->gpus[kind];
        counts = best->gpus;
    }

    static int usable(const Simulation& simulation, int kind) {
        int gpus = 0;
        for (std::size_t host = 0; host < simulation.cluster().hosts.size(); ++host)
            if (simulation.cluster().hosts[host].kind == kind && simulation.pool().up(static_cast<int>(host)))
                gpus += simulation.cluster().hosts[host].gpus;
        return gpus;
    }

    static Counts held_by(const Simulation& simulation, int id) {
        const Grant& held = simulation.grant(id);
        if (held.parts.empty()) return {};
        Counts counts(simulation.cluster().kinds.size());
        for (const GpuShare& part : held.parts) counts[simulation.cluster().hosts[part.host].kind] += part.gpus;
        return counts;
    }

    // GPUs of all kinds that `counts` asks for; nothing where they are not free.
    static Grant place(const Simulation& simulation, int id, const Counts& counts) {
        Grant all;
        for (std::size_t kind = 0; kind < counts.size(); ++kind) {
            if (counts[kind] == 0) continue;
            TraceJob there = simulation.job(id);
            there.kind = static_cast<int>(kind);
            const auto grant = simulation.pool().place(there, counts[kind]);
            if (!grant) return {};
            all.parts = sum_of(all.parts, grant->parts);
        }
        return all;
    }

    void run(Simulation& simulation, const std::vector<Counts>& wanted) {
        for (std::size_t i = 0; i < jobs_.size(); ++i) {
            const Counts held = held_by(simulation, jobs_[i]);
            if (!held.empty() && held != wanted[i]) simulation.stop(jobs_[i]);
        }
        for (std::size_t i = 0; i < jobs_.size(); ++i) {
            if (simulation.result(jobs_[i]).finish != never) {
                // Given GPUs, it says at once that it is done, which holds them for the round; else when it is asked
                // next.
                if (wanted[i].empty()) simulation.record_finish(jobs_[i], simulation.now() + round_);
                ended_.insert(jobs_[i]);
                continue;
            }
            if (wanted[i].empty() || !simulation.grant(jobs_[i]).parts.empty()) continue;
            Grant grant = place(simulation, jobs_[i], wanted[i]);
            if (grant.parts.empty() || !simulation.within_quota(jobs_[i], grant.gpus())) continue;
            simulation.start(jobs_[i], std::move(grant));
        }
    }

    GavelVariant variant_;
    Time round_ = shortest;
    Time due_ = 0;  // when the next round begins
    std::vector<int> jobs_;
    std::vector<int> chosen_;  // of the last round, most urgent first
    // Of the simulator.
    std::vector<int> known_;  // jobs_, in order
    std::set<int> ended_;     // done when a round began
    std::vector<int> queue_;  // who was not chosen, or came since, as a heap
    int next_ = 0;            // the first job that has not come
    std::vector<KindUse> uses_;
    std::vector<std::vector<double>> shares_;
    std::map<std::pair<int, int>, int> rounds_;  // that a job has had on a kind
};

}  // namespace

std::unique_ptr<Policy> make_gavel() { return std::make_unique<Gavel>(GavelVariant{false, false}); }
std::unique_ptr<Policy> make_gavel_mixed() { return std::make_unique<Gavel>(GavelVariant{true, false}); }
std::unique_ptr<Policy> make_gavel_simulator() { return std::make_unique<Gavel>(GavelVariant{false, true}); }
std::unique_ptr<Policy> make_gavel_mixed_simulator() { return std::make_unique<Gavel>(GavelVariant{true, true}); }

}  // namespace tpx
