// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/in_order.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/sensitivity.hpp"
#include "lib/cluster/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <map>

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
        configurations_.clear();
        next_ = 0;
    }

    bool resizes() const override { return true; }

private:
    static constexpr Time round = 60 * second;
    static constexpr double power = -0.5;
    static constexpr double without = 1.1;

    struct Choice {
        int gpus;
        double cost;
    };

    // The configurations of a job, without any first.
    std::vector<Choice> choices(const Simulation& simulation, int id) {
        std::vector<Choice> all{{0, without}};
        const auto worth = [&](int gpus, double relative) {
            const bool same = simulation.grant(id).gpus() == gpus;
            all.push_back({gpus, std::pow(relative * (same ? 1 : restart_factor(simulation, id)), power)});
        };
        for (const auto& [gpus, rate] : configurations(simulation, id))
            worth(gpus, rate / configurations_[id].front().second);
        return all;
    }

    using Configurations = std::vector<std::pair<int, double>>;  // numbers of GPUs and rates

    // Those within the job's limits and its tenant's quota that fit when nobody else runs.
    const Configurations& configurations(const Simulation& simulation, int id) {
        const auto [entry, is_new] = configurations_.try_emplace(id);
        if (!is_new) return entry->second;
        const TraceJob& job = simulation.job(id);
        if (!job.speed->data_parallel()) return entry->second = {{job.gpus, 1}};
        const bool charged = job.tenant != any && job.guaranteed;
        const int all = charged ? simulation.cluster().tenants[job.tenant].quota : simulation.cluster().gpus();
        const int most = std::min(job.most, all);
        const Sensitivity is{job, simulation.cluster(), Freedom::none, most};
        const GpuPool empty{simulation.cluster()};
        for (const int gpus : is.useful(job.least, most))
            if (empty.place(job, gpus)) entry->second.emplace_back(gpus, is.rate(gpus));
        if (entry->second.empty()) entry->second = {{job.gpus, 1}};
        return entry->second;
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
        const std::vector<int> ids = all_jobs(simulation);
        std::vector<std::vector<Choice>> all;
        long most = 0;  // GPUs that the jobs could use together
        for (const int id : ids) {
            all.push_back(choices(simulation, id));
            most += std::ranges::max(all.back(), {}, &Choice::gpus).gpus;
        }
        wanted_.clear();
        const int gpus = simulation.usable();
        most <= gpus ? want_all(ids, all) : want_best(ids, all, gpus);
        free_unwanted(simulation);
    }

    // What want_best() decides where there are GPUs for all.
    void want_all(const std::vector<int>& ids, const std::vector<std::vector<Choice>>& all) {
        double sum = 0;
        for (std::size_t i = 0; i < ids.size(); ++i) {
            double least = HUGE_VAL;
            for (const Choice& choice : all[i]) least = std::min(least, sum + choice.cost);
            const auto chosen =
                std::ranges::find_if(all[i], [&](const Choice& choice) { return sum + choice.cost == least; });
            wanted_[ids[i]] = chosen->gpus;
            sum = least;
        }
    }

    // least_[i][g]: the least cost of the first i jobs with at most g GPUs.
    void want_best(const std::vector<int>& ids, const std::vector<std::vector<Choice>>& all, int gpus) {
        if (least_.size() <= ids.size()) least_.resize(ids.size() + 1);
        least_[0].assign(gpus + 1, 0);
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const double* before = least_[i].data();
            std::vector<double>& next = least_[i + 1];
            next.assign(gpus + 1, HUGE_VAL);
            for (const Choice& choice : all[i])
                for (int has = choice.gpus; has <= gpus; ++has)
                    next[has] = std::min(next[has], before[has - choice.gpus] + choice.cost);
        }
        int left = gpus;
        for (std::size_t i = ids.size(); i-- > 0;) {
            const auto chosen = std::ranges::find_if(all[i], [&](const Choice& choice) {
                return choice.gpus <= left && least_[i + 1][left] == least_[i][left - choice.gpus] + choice.cost;
            });
            wanted_[ids[i]] = chosen->gpus;
            left -= chosen->gpus;
        }
    }

    void free_unwanted(Simulation& simulation) {
        const std::vector<int> running = simulation.running();
        for (const int id : running) {
            const int has = simulation.grant(id).gpus(), wants = wanted_[id];
            if (wants == 0)
                simulation.stop(id);
            else if (wants < has)
                simulation.change(id, GpuPool::part_of(simulation.grant(id), wants));
        }
    }

    // Starts and grows who is to have more, as far as it is free.
    void start_wanted(Simulation& simulation) {
        for (const auto& [id, wants] : wanted_) {
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

    std::map<int, Configurations> configurations_;
    std::map<int, int> wanted_;
    std::vector<std::vector<double>> least_;
    Time next_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_sia() { return std::make_unique<Sia>(); }

}  // namespace tpx
