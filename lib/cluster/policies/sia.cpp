// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/policies.hpp"
#include "lib/cluster/policies/sia_jobs.hpp"
#include "lib/cluster/policies/sia_program.hpp"
#include "lib/cluster/policies/sia_turns.hpp"
#include "lib/cluster/simulation.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <vector>

namespace tpx {
namespace {

// As Jayaram Subramanya et al., "Sia" (SOSP 2023), chooses numbers of GPUs, on one kind of GPU: every minute the choice
// of one configuration a job, or none, with the least sum of (r g)^-0.5, where g is the rate in units of the job's
// slowest configuration and r what a restart leaves of it, and 1.1 for a job without GPUs. Costs are rounded to
// multiples of 2^-22; with these, the sum is exactly the least one, for which the paper solves an integer program.
// Among equal sums, one that stops the fewest running jobs is chosen, and among these one with the most GPUs and the
// fewest resizes; if waiting jobs have the same choice at the same cost, those that came first get it. Jobs with tensor
// or pipeline parallelism have one configuration, what they ask for.
class Sia final : public Policy {
public:
    void schedule(Simulation& simulation) override {
        if (simulation.now() >= next_) {
            if (jobs_.update(simulation)) decide(simulation);
            next_ = simulation.now() + round;
        }
        start_wanted(simulation);
        simulation.wake(next_);
    }

    void forget() override {
        jobs_.forget();
        next_ = 0;
    }

    bool resizes() const override { return true; }

private:
    static constexpr Time round = 60 * second;

    void decide(Simulation& simulation) {
        const auto& shares = program_.solve(jobs_.groups(), simulation.usable());
        std::vector<SiaTurn> waiting;
        wishes_.clear();
        for (std::size_t group = 0; group < shares.size(); ++group) {
            const SiaTurn turn{jobs_.groups()[group].choices, jobs_.jobs(group), shares[group]};
            if (jobs_.are_running(group))
                std::ranges::copy(sia_turns({&turn, 1}), std::back_inserter(wishes_));
            else
                waiting.push_back(turn);
        }
        std::ranges::copy(sia_turns(waiting), std::back_inserter(wishes_));
        std::ranges::sort(wishes_, {}, &SiaWish::id);
        free_unwanted(simulation);
        pending_ = wishes_;
        interventions_ = simulation.interventions();
    }

    // Takes GPUs from running jobs that get fewer.
    void free_unwanted(Simulation& simulation) {
        const std::vector<int> running = simulation.running();
        for (const int id : running) {
            const auto wish = std::ranges::lower_bound(wishes_, id, {}, &SiaWish::id);
            const int wants = wish != wishes_.end() && wish->id == id ? wish->gpus : 0;
            if (wants == 0) {
                simulation.stop(id);
                jobs_.stopped(id);
            } else if (wants < simulation.grant(id).gpus()) {
                simulation.change(id, GpuPool::part_of(simulation.grant(id), wants));
            }
        }
    }

    // Starts jobs and gives running jobs more GPUs, as far as GPUs are free; also after a failure has taken them.
    void start_wanted(Simulation& simulation) {
        if (simulation.interventions() != interventions_) pending_ = wishes_;
        interventions_ = simulation.interventions();
        std::erase_if(pending_, [&](const SiaWish& wish) { return is_granted(simulation, wish); });
    }

    // Gives the job its GPUs if they are free. Returns whether nothing is left to do for it.
    bool is_granted(Simulation& simulation, const SiaWish& wish) {
        const auto& [id, gpus] = wish;
        const Grant& held = simulation.grant(id);
        if (simulation.result(id).finish != never || gpus <= held.gpus()) return true;
        if (!simulation.within_quota(id, gpus)) return false;
        if (held.parts.empty()) {
            auto grant = simulation.place(id, gpus);
            if (!grant) return false;
            simulation.start(id, std::move(*grant));
            jobs_.started(id);
        } else {
            auto grant = simulation.pool().place_more(simulation.job(id), held, gpus - held.gpus());
            if (!grant) return false;
            simulation.change(id, std::move(*grant));
        }
        return true;
    }

    SiaJobs jobs_;
    SiaProgram program_;
    std::vector<SiaWish> wishes_;   // jobs that the last decision gives GPUs, in order of arrival
    std::vector<SiaWish> pending_;  // those that are not granted yet
    int interventions_ = 0;
    Time next_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_sia() { return std::make_unique<Sia>(); }

}  // namespace tpx
