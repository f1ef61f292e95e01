// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/in_order.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/sensitivity.hpp"
#include "lib/cluster/simulation.hpp"

#include <algorithm>
#include <cmath>
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
        rows_.clear();
        known_rows_ = 0;
        next_ = 0;
    }

    bool resizes() const override { return true; }

private:
    static constexpr Time round = 60 * second;
    static constexpr double power = -0.5;
    static constexpr double without = 1.1;

    using Configurations = std::vector<std::pair<int, double>>;  // numbers of GPUs and rates

    struct Choice {
        int gpus;
        double cost;
        bool operator==(const Choice&) const = default;
    };

    struct Job {
        Configurations configurations;  // none: not known yet
        std::vector<Choice> choices;    // the configurations, without any first
        int held = any;                 // GPUs that the choices are for
        int most = 0;                   // GPUs of a choice
        bool constant = false;          // the choices are the same as long as it holds so many
        int version = 0;                // of the choices
        int wanted = 0;                 // GPUs, as of the last decision
    };

    // Brings the choices of a job up to date.
    Job& update(const Simulation& simulation, int id) {
        if (jobs_.size() <= static_cast<std::size_t>(id)) jobs_.resize(static_cast<std::size_t>(id) + 1);
        Job& job = jobs_[static_cast<std::size_t>(id)];
        const int held = simulation.grant(id).gpus();
        if (job.constant && job.held == held) return job;
        if (job.configurations.empty()) job.configurations = configurations(simulation, id);
        const Configurations& all = job.configurations;
        job.held = held;
        job.constant = held == 0 || (all.size() == 1 && all[0].first == held);
        std::vector<Choice> choices{{0, without}};
        for (const auto& [gpus, rate] : all) {
            const double kept = held == gpus ? 1 : restart_factor(simulation, id);
            choices.push_back({gpus, std::pow(rate / all.front().second * kept, power)});
        }
        if (choices == job.choices) return job;
        job.choices = std::move(choices);
        job.most = std::ranges::max(job.choices, {}, &Choice::gpus).gpus;
        ++job.version;
        return job;
    }

    // Those within the job's limits and its tenant's quota that fit when nobody else runs.
    Configurations configurations(const Simulation& simulation, int id) {
        const TraceJob& job = simulation.job(id);
        if (!job.speed->data_parallel()) return {{job.gpus, 1}};
        const bool charged = job.tenant != any && job.guaranteed;
        const int all = charged ? simulation.cluster().tenants[job.tenant].quota : simulation.cluster().gpus();
        const int most = std::min(job.most, all);
        const Sensitivity is{job, simulation.cluster(), Freedom::none, most};
        if (!empty_) empty_.emplace(simulation.cluster());
        Configurations found;
        for (const int gpus : is.useful(job.least, most))
            if (empty_->place(job, gpus)) found.emplace_back(gpus, is.rate(gpus));
        if (found.empty()) found = {{job.gpus, 1}};
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
        ids_ = all_jobs(simulation);
        long most = 0;  // GPUs that the jobs could use together
        for (const int id : ids_) most += update(simulation, id).most;
        const int gpus = simulation.usable();
        most <= gpus ? want_all() : want_best(gpus, most);
        free_unwanted(simulation);
    }

    // What want_best() decides where there are GPUs for all.
    void want_all() {
        double sum = 0;
        for (const int id : ids_) {
            Job& job = jobs_[static_cast<std::size_t>(id)];
            double least = HUGE_VAL;
            for (const Choice& choice : job.choices) least = std::min(least, sum + choice.cost);
            const auto chosen =
                std::ranges::find_if(job.choices, [&](const Choice& choice) { return sum + choice.cost == least; });
            job.wanted = chosen->gpus;
            sum = least;
        }
    }

    // The least cost of the first jobs, up to this one, with at most so many GPUs: from `from` to `to`, and the same
    // with more than `to`, which is all that they can use.
    struct Row {
        int id = any;
        int version = 0;
        int from = 0;
        int to = 0;
        std::vector<double> least;

        double at(int gpus) const { return least[static_cast<std::size_t>(std::min(gpus, to) - from)]; }
    };

    // Rows of jobs that come before all that has changed since the last decision hold. With fewer GPUs than all later
    // jobs leave at least, no row is asked.
    void want_best(int gpus, long most) {
        if (gpus != row_gpus_) known_rows_ = 0;
        row_gpus_ = gpus;
        if (rows_.size() < ids_.size()) rows_.resize(ids_.size());
        std::size_t same = 0;
        const auto least_left = [&](long used) { return static_cast<int>(std::max(0L, gpus - (most - used))); };
        long used = 0;  // most GPUs of the jobs before
        for (; same < std::min(known_rows_, ids_.size()); ++same) {
            const Job& job = jobs_[static_cast<std::size_t>(ids_[same])];
            const Row& row = rows_[same];
            if (row.id != ids_[same] || row.version != job.version || row.from > least_left(used + job.most)) break;
            used += job.most;
        }
        for (std::size_t i = same; i < ids_.size(); ++i) {
            const Job& job = jobs_[static_cast<std::size_t>(ids_[i])];
            used += job.most;
            const int spare = gpus / 4;  // jobs that come later ask for lower numbers
            compute(i, job, std::max(0, least_left(used) - spare), static_cast<int>(std::min<long>(gpus, used)));
        }
        known_rows_ = ids_.size();
        choose(gpus);
    }

    void compute(std::size_t i, const Job& job, int from, int to) {
        static const Row nothing{any, 0, 0, 0, {0}};
        const Row& before = i > 0 ? rows_[i - 1] : nothing;
        Row& row = rows_[i];
        row.id = ids_[i];
        row.version = job.version;
        row.from = from = std::max(from, before.from > 0 ? before.from + job.most : 0);
        row.to = to;
        row.least.assign(static_cast<std::size_t>(to - from + 1), HUGE_VAL);
        double* least = row.least.data();
        const double* has_before = before.least.data();
        for (const Choice& choice : job.choices) {
            const int offset = before.from + choice.gpus, first = std::max(from, offset);
            const int flat = before.to + choice.gpus;
            for (int has = first; has <= std::min(to, flat); ++has)
                least[has - from] = std::min(least[has - from], has_before[has - offset] + choice.cost);
            const double rest = before.least.back() + choice.cost;
            for (int has = std::max(first, flat + 1); has <= to; ++has)
                least[has - from] = std::min(least[has - from], rest);
        }
    }

    void choose(int gpus) {
        int left = gpus;
        for (std::size_t i = ids_.size(); i-- > 0;) {
            Job& job = jobs_[static_cast<std::size_t>(ids_[i])];
            const double least = rows_[i].at(left);
            const auto chosen = std::ranges::find_if(job.choices, [&](const Choice& choice) {
                if (choice.gpus > left) return false;
                return least == (i > 0 ? rows_[i - 1].at(left - choice.gpus) : 0) + choice.cost;
            });
            job.wanted = chosen->gpus;
            left -= chosen->gpus;
        }
    }

    void free_unwanted(Simulation& simulation) {
        const std::vector<int> running = simulation.running();
        for (const int id : running) {
            const int has = simulation.grant(id).gpus(), wants = jobs_[static_cast<std::size_t>(id)].wanted;
            if (wants == 0)
                simulation.stop(id);
            else if (wants < has)
                simulation.change(id, GpuPool::part_of(simulation.grant(id), wants));
        }
    }

    // Starts and grows who is to have more, as far as it is free.
    void start_wanted(Simulation& simulation) {
        for (const int id : ids_) {
            const int wants = jobs_[static_cast<std::size_t>(id)].wanted;
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
    std::vector<Job> jobs_;
    std::vector<int> ids_;  // of the last decision
    std::vector<Row> rows_;
    std::size_t known_rows_ = 0;
    int row_gpus_ = 0;
    Time next_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_sia() { return std::make_unique<Sia>(); }

}  // namespace tpx
