// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/job_order.hpp"
#include "lib/cluster/max_min.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"

#include <algorithm>
#include <cmath>
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
        const bool other_jobs = find_jobs(simulation), other_gpus = count_gpus(simulation);
        if (other_jobs || other_gpus) compute_shares(simulation);
        run(simulation, choose(simulation));
        simulation.wake(next);
    }

    void forget() override {
        counts_.clear();
        classes_ = {};
        classes_of_.clear();
        sizes_.clear();
        jobs_.clear();
        known_.clear();
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

    // Counts the GPUs of each kind that jobs can have now; true when there are others than before. VirtualFlow's
    // simulator has all of them all the time.
    bool count_gpus(const Simulation& simulation) {
        std::vector<int> counts;
        for (int kind = 0; kind < static_cast<int>(simulation.cluster().kinds.size()); ++kind)
            counts.push_back(variant_.simulator ? simulation.cluster().gpus(kind) : usable(simulation, kind));
        if (counts == counts_) return false;
        counts_ = std::move(counts);
        classes_ = {};
        classes_of_.clear();
        sizes_.clear();
        return true;
    }

    void compute_shares(const Simulation& simulation) {
        rounds_.assign(jobs_.size() * simulation.cluster().kinds.size(), 0);
        if (variant_.simulator) {
            uses_.clear();
            for (const int id : jobs_) uses_.push_back(use_of(simulation, id));
            shares_ = max_min_shares(uses_, counts_);
            return;
        }
        std::vector<int> sizes;
        for (const int id : jobs_) {
            if (classes_of_.size() <= static_cast<std::size_t>(id))
                classes_of_.resize(static_cast<std::size_t>(id) + 1, any);
            int& number = classes_of_[static_cast<std::size_t>(id)];
            if (number == any) number = static_cast<int>(classes_.add(use_of(simulation, id)));
            if (sizes.size() < classes_.uses().size()) sizes.resize(classes_.uses().size());
            ++sizes[static_cast<std::size_t>(number)];
        }
        sizes.resize(classes_.uses().size());
        if (sizes != sizes_) shares_ = fair_class_shares(classes_.uses(), sizes, counts_);
        sizes_ = std::move(sizes);
    }

    // On which kinds a job can run, with how many GPUs and how fast.
    KindUse use_of(const Simulation& simulation, int id) const {
        const TraceJob& job = simulation.job(id);
        KindUse use{job.priority, {}, {}};
        for (int kind = 0; kind < static_cast<int>(counts_.size()); ++kind) {
            const bool allowed = job.kind == any || job.kind == kind;
            const auto [gpus, rate] = job.speed->on_kind(kind, job.gpus);
            const bool fits = allowed && rate > 0 && gpus <= std::min(counts_[kind], job.most);
            use.gpus.push_back(fits ? gpus : 0);
            use.rates.push_back(fits ? rate : 0);
        }
        return use;
    }

    // Where job i of jobs_ has its use and shares.
    std::size_t place_of(std::size_t i) const {
        return variant_.simulator ? i : static_cast<std::size_t>(classes_of_[static_cast<std::size_t>(jobs_[i])]);
    }
    const KindUse& use(std::size_t i) const { return variant_.simulator ? uses_[i] : classes_.uses()[place_of(i)]; }

    struct Candidate {
        double urgency;
        std::size_t index;
        int kind;
        std::size_t place = 0;
    };
    static bool is_later(const Candidate& a, const Candidate& b) {
        return a.urgency != b.urgency ? a.urgency < b.urgency : a.place > b.place;
    }

    using Counts = std::vector<int>;  // GPUs of each kind

    // What each job has in the next round; nothing where it has none.
    std::vector<Counts> choose(const Simulation& simulation) {
        std::vector<Candidate> candidates;
        const int kinds = static_cast<int>(simulation.cluster().kinds.size());
        for (std::size_t n = 0; n < jobs_.size(); ++n) {  // of equally urgent ones, the simulator takes the last one
            const std::size_t i = variant_.simulator ? jobs_.size() - 1 - n : n;
            for (int kind = 0; kind < kinds; ++kind) {
                const double share = shares_[place_of(i)][kind];
                if (share <= 0) continue;
                const int had = rounds_[i * static_cast<std::size_t>(kinds) + static_cast<std::size_t>(kind)];
                candidates.push_back({had == 0 ? HUGE_VAL : share / had, i, kind});
            }
        }
        for (std::size_t place = 0; place < candidates.size(); ++place) candidates[place].place = place;
        std::ranges::make_heap(candidates, is_later);
        std::vector<std::size_t> order;
        std::vector<int> free, chosen(jobs_.size(), any);
        for (int kind = 0; kind < kinds; ++kind) free.push_back(usable(simulation, kind));
        chosen_.clear();
        queue_.clear();
        while (!candidates.empty() && std::ranges::any_of(free, [](int gpus) { return gpus > 0; })) {
            std::ranges::pop_heap(candidates, is_later);
            const Candidate candidate = candidates.back();
            candidates.pop_back();
            const int gpus = use(candidate.index).gpus[candidate.kind];
            if (chosen[candidate.index] != any || free[candidate.kind] < gpus) continue;
            chosen[candidate.index] = candidate.kind;
            order.push_back(candidate.index);
            free[candidate.kind] -= gpus;
            ++rounds_[candidate.index * static_cast<std::size_t>(kinds) + static_cast<std::size_t>(candidate.kind)];
        }
        std::vector<Counts> counts(jobs_.size());
        for (const std::size_t index : order) {
            chosen_.push_back(jobs_[index]);
            counts[index].resize(free.size());
            counts[index][chosen[index]] = use(index).gpus[chosen[index]];
            if (variant_.mixed)
                add_idle(simulation.job(jobs_[index]), use(index).rates[chosen[index]], counts[index], free);
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
            if (simulation.cluster().hosts[host].kind == kind) gpus += simulation.usable(static_cast<int>(host));
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
            GpuRequirements there = simulation.job(id);
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
    std::vector<int> known_;                   // jobs_, in order
    std::set<int> ended_;                      // done when a round began
    std::vector<int> queue_;                   // who was not chosen, or came since, as a heap
    int next_ = 0;                             // the first job that has not come
    std::vector<int> counts_;                  // GPUs of each kind
    std::vector<KindUse> uses_;                // of the simulator, by job
    UseClasses classes_;                       // else of all jobs
    std::vector<int> classes_of_;              // by job
    std::vector<int> sizes_;                   // jobs of each class that the shares are for
    std::vector<std::vector<double>> shares_;  // by job or class, and kind
    std::vector<int> rounds_;                  // that a job has had on a kind
};

}  // namespace

std::unique_ptr<Policy> make_gavel() { return std::make_unique<Gavel>(GavelVariant{false, false}); }
std::unique_ptr<Policy> make_gavel_mixed() { return std::make_unique<Gavel>(GavelVariant{true, false}); }
std::unique_ptr<Policy> make_gavel_simulator() { return std::make_unique<Gavel>(GavelVariant{false, true}); }
std::unique_ptr<Policy> make_gavel_mixed_simulator() { return std::make_unique<Gavel>(GavelVariant{true, true}); }

}  // namespace tpx
