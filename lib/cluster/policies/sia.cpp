// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/job_order.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/policies/sia_choices.hpp"
#include "lib/cluster/sensitivity.hpp"
#include "lib/cluster/simulation.hpp"

#include <algorithm>
#include <memory>
#include <optional>

namespace tpx {
namespace {

// As Jayaram Subramanya et al., "Sia" (SOSP 2023), chooses numbers of GPUs, on one kind of GPU: every minute the choice
// of one configuration a job, or none, with the least sum of (r g)^-0.5, where g is the rate in units of the job's
// slowest configuration and r what a restart leaves of it, and 1.1 for a job without GPUs. The sum is exactly the least
// one, by dynamic programming over GPUs, where Sia asks an integer program. Jobs with tensor or pipeline parallelism
// have one configuration, what they ask for.
class Sia final : public Policy {
public:
    void schedule(Simulation& simulation) override {
        if (simulation.now() >= next_) {
            decide(simulation);
            next_ = simulation.now() + round;
        }
        start_wanted(simulation);
        simulation.wake(next_);
    }

    void forget() override {
        jobs_.clear();
        ids_.clear();
        program_ = {};
        next_ = 0;
    }

    bool resizes() const override { return true; }

private:
    static constexpr Time round = 60 * second;

    struct Job {
        SiaChoices choices;
        int wanted = 0;  // GPUs, in the last decision
    };

    // Brings the choices of a job up to date.
    SiaChoices& update(const Simulation& simulation, int id) {
        if (jobs_.size() <= static_cast<std::size_t>(id)) jobs_.resize(static_cast<std::size_t>(id) + 1);
        std::unique_ptr<Job>& job = jobs_[static_cast<std::size_t>(id)];
        if (!job) job.reset(new Job{SiaChoices{configurations(simulation, id)}});
        const int held = simulation.grant(id).gpus();
        if (held != job->choices.held() || !job->choices.constant())
            job->choices.hold(held, restart_factor(simulation, id));
        return job->choices;
    }

    // Those within the job's limits and its tenant's quota that fit when nobody else runs.
    std::vector<SiaChoices::Configuration> configurations(const Simulation& simulation, int id) {
        const TraceJob& job = simulation.job(id);
        if (!job.speed->data_parallel()) return {{job.gpus, 1, 0}};
        const bool charged = job.tenant != any && job.guaranteed;
        const int all = charged ? simulation.cluster().tenants[job.tenant].quota : simulation.cluster().gpus();
        const int most = std::min(job.most, all);
        const Sensitivity is{job, simulation.cluster(), Freedom::none, most};
        if (!empty_) empty_.emplace(simulation.cluster());
        std::vector<SiaChoices::Configuration> found;
        for (const int gpus : is.useful(job.least, most))
            if (empty_->place(job, gpus)) found.push_back({gpus, is.rate(gpus), 0});
        if (found.empty()) return {{job.gpus, 1, 0}};
        const double slowest = found.front().speed;
        for (SiaChoices::Configuration& configuration : found) configuration.speed /= slowest;
        return found;
    }

    // What a change leaves of a running job's progress: (age - lost) / (age + restart).
    static double restart_factor(const Simulation& simulation, int id) {
        if (simulation.grant(id).parts.empty()) return 1;
        const JobResult& is = simulation.result(id);
        const auto age = static_cast<double>(simulation.now() - is.start);
        const auto restart = static_cast<double>(simulation.change_delay());
        const double lost = restart + static_cast<double>(is.paused);
        return std::max(0.01, (age - lost) / (age + restart + 1));
    }

    void decide(Simulation& simulation) {
        for (const int id : ids_)
            if (simulation.result(id).finish != never) jobs_[static_cast<std::size_t>(id)].reset();
        ids_ = all_jobs(simulation);
        choices_.clear();
        for (const int id : ids_) choices_.push_back(&update(simulation, id));
        program_.solve(choices_, ids_, simulation.usable(), chosen_);
        for (std::size_t i = 0; i < ids_.size(); ++i)
            jobs_[static_cast<std::size_t>(ids_[i])]->wanted = choices_[i]->gpus(chosen_[i]);
        free_unwanted(simulation);
    }

    void free_unwanted(Simulation& simulation) {
        const std::vector<int> running = simulation.running();
        for (const int id : running) {
            const int has = simulation.grant(id).gpus(), wants = jobs_[static_cast<std::size_t>(id)]->wanted;
            if (wants == 0)
                simulation.stop(id);
            else if (wants < has)
                simulation.change(id, GpuPool::part_of(simulation.grant(id), wants));
        }
    }

    // Starts and grows who is to have more, as far as it is free.
    void start_wanted(Simulation& simulation) {
        for (const int id : ids_) {
            const int wants = jobs_[static_cast<std::size_t>(id)]->wanted;
            if (simulation.result(id).finish != never || wants == 0) continue;
            const Grant& held = simulation.grant(id);
            if (wants <= held.gpus() || !simulation.within_quota(id, wants)) continue;
            if (held.parts.empty()) {
                if (auto grant = simulation.place(id, wants)) simulation.start(id, std::move(*grant));
            } else if (auto grant = simulation.pool().place_more(simulation.job(id), held, wants - held.gpus())) {
                simulation.change(id, std::move(*grant));
            }
        }
    }

    std::optional<GpuPool> empty_;
    std::vector<std::unique_ptr<Job>> jobs_;  // by job; null once a job has finished
    std::vector<int> ids_;                    // of the last decision
    std::vector<SiaChoices*> choices_;        // of these
    std::vector<int> chosen_;
    SiaProgram program_;
    Time next_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_sia() { return std::make_unique<Sia>(); }

}  // namespace tpx
