// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/policies.hpp"
#include "lib/cluster/sensitivity.hpp"
#include "lib/cluster/simulation.hpp"
#include "lib/cluster/speed.hpp"

#include <algorithm>
#include <map>

namespace tpx {
namespace {

// What a variant may do.
struct Variant {
    bool plans;      // choose execution plans
    bool resources;  // choose numbers of GPUs
};

// Zhang et al., "Rubick" (MLSys 2025), on GPUs: a guaranteed job needs the fewest GPUs with which its best plan is as
// fast as what it asked for, and is let in, first come first served, when its tenant's quota has room for them. GPUs go
// where they bring most: those that are free to who gains most from them, those that a guaranteed job lacks are taken
// from who loses least. A job that runs is only changed for its own good while its changes cost it less than 3 % of its
// time.
class Rubick final : public Policy {
public:
    explicit Rubick(Variant variant) : variant_{variant} {}

    void schedule(Simulation& simulation) override {
        const std::vector<int> waiting = simulation.waiting();
        for (const int id : waiting)
            if (simulation.job(id).guaranteed) admit(simulation, id);
        for (const int id : waiting)
            if (!simulation.job(id).guaranteed) start(simulation, id, modest(simulation, id));
        if (variant_.resources) grow(simulation);
    }

private:
    Freedom freedom() const {
        if (variant_.plans) return Freedom::plans;
        return variant_.resources ? Freedom::resources : Freedom::none;
    }

    const Sensitivity& curve(const Simulation& simulation, int id) {
        const TraceJob& job = simulation.job(id);
        const void* family = variant_.plans && job.speed->family() ? job.speed->family() : &job;
        auto found = curves_.find(family);
        if (found == curves_.end())
            found =
                curves_.try_emplace(family, job, simulation.cluster(), freedom(), simulation.cluster().gpus()).first;
        return found->second;
    }

    // As fast as it asked to be.
    double asked_rate(const Simulation& simulation, int id) {
        const auto [entry, is_new] = asked_.try_emplace(id);
        if (is_new) entry->second = full_rate(simulation.job(id), simulation.cluster());
        return entry->second;
    }

    // The fewest GPUs with which a job is as fast as it asked to be; best-effort jobs need none.
    int least(const Simulation& simulation, int id) {
        const TraceJob& job = simulation.job(id);
        if (!job.guaranteed) return 0;
        if (!variant_.resources) return job.gpus;
        const auto [entry, is_new] = least_.try_emplace(id, job.gpus);
        if (!is_new) return entry->second;
        const Sensitivity& is = curve(simulation, id);
        for (int gpus = 1; gpus < job.gpus; ++gpus) {
            if (is.rate(gpus) < asked_rate(simulation, id)) continue;
            entry->second = gpus;
            break;
        }
        return entry->second;
    }

    // The fewest GPUs with which a job is half as fast as it asked to be: with less it would be slow for long, as
    // changes are rare.
    int modest(const Simulation& simulation, int id) {
        const int asked = simulation.job(id).gpus;
        if (!variant_.resources) return asked;
        for (int gpus = 1; gpus < asked; ++gpus)
            if (2 * curve(simulation, id).rate(gpus) >= asked_rate(simulation, id)) return gpus;
        return asked;
    }

    // Rates in units of what each job asked for, so that they compare.
    double slope(const Simulation& simulation, int id, double rate) { return rate / asked_rate(simulation, id); }

    void admit(Simulation& simulation, int id) {
        const int need = least(simulation, id);
        if (!simulation.within_quota(id, need)) return;
        if (simulation.pool().free() < need && !make_room(simulation, need)) return;
        start(simulation, id, need);
    }

    // Starts a job with the GPUs it asked for, or as many of them as are free and of use, but no fewer than `need`.
    void start(Simulation& simulation, int id, int need) {
        const TraceJob& job = simulation.job(id);
        int gpus = std::min(job.gpus, simulation.pool().free(job.kind));
        if (variant_.resources && gpus > need) gpus = std::max(need, curve(simulation, id).useful(gpus));
        if (gpus < need || gpus == 0 || (!variant_.resources && gpus < job.gpus)) return;
        auto grant = simulation.place(id, gpus);
        if (!grant) return;
        grant->plan = plan_for(job, *grant, simulation.cluster(), freedom());
        if (!(job.speed->rate(*grant, simulation.cluster()) > 0)) return;
        simulation.start(id, std::move(*grant));
    }

    // One way to take GPUs from a running job.
    struct Loss {
        double slope;
        int id;
        int left;
    };

    // The cheapest loss that leaves `id` what it needs, given that it has `has`; left = -1: there is none.
    Loss loss_of(const Simulation& simulation, int id, int has) {
        const int floor = least(simulation, id);
        Loss best{0, id, -1};
        if (!variant_.resources && simulation.job(id).guaranteed) return best;
        const Sensitivity& is = curve(simulation, id);
        for (int gpus = has - 1; gpus >= floor; --gpus) {
            const int left = variant_.resources ? is.useful(gpus) : 0;
            if (left < floor) break;
            const double slope_down = slope(simulation, id, (is.rate(has) - is.rate(left)) / (has - left));
            if (best.left < 0 || slope_down < best.slope) best = {slope_down, id, left};
        }
        return best;
    }

    // Takes GPUs from who loses least until `need` are free; all or nothing.
    bool make_room(Simulation& simulation, int need) {
        std::map<int, int> has;
        for (const int id : simulation.running()) has[id] = simulation.grant(id).gpus();
        int free = simulation.soon().free();
        std::map<int, int> left;
        while (free < need) {
            Loss cheapest{0, any, -1};
            for (const auto& [id, gpus] : has) {
                const Loss loss = gpus > 0 ? loss_of(simulation, id, gpus) : Loss{0, id, -1};
                if (loss.left >= 0 && (cheapest.left < 0 || loss.slope < cheapest.slope)) cheapest = loss;
            }
            if (cheapest.left < 0) return false;
            free += has[cheapest.id] - cheapest.left;
            left[cheapest.id] = has[cheapest.id] = cheapest.left;
        }
        for (const auto& [id, gpus] : left) give_up(simulation, id, gpus);
        return simulation.pool().free() >= need;
    }

    void give_up(Simulation& simulation, int id, int gpus) {
        if (gpus == 0) return simulation.stop(id);
        Grant grant = GpuPool::part_of(simulation.grant(id), gpus);
        grant.plan = plan_for(simulation.job(id), grant, simulation.cluster(), freedom());
        simulation.change(id, std::move(grant));
    }

    // Gives free GPUs to those who gain most, one step at a time.
    void grow(Simulation& simulation) {
        std::vector<int> open;
        for (const int id : simulation.running())
            if (!simulation.changing(id) && worth_changing(simulation, id, simulation.change_delay()))
                open.push_back(id);
        while (!open.empty() && simulation.pool().free() > 0) {
            int best = any, gpus = 0;
            double most = 0;
            for (const int id : open) {
                const int has = simulation.grant(id).gpus();
                const auto [to, gain] = curve(simulation, id).step_up(has, has + simulation.pool().free());
                const double here = slope(simulation, id, gain);
                if (here > most) best = id, gpus = to, most = here;
            }
            if (best == any) return;
            std::erase(open, best);
            enlarge(simulation, best, gpus);
        }
    }

    void enlarge(Simulation& simulation, int id, int gpus) {
        const Grant& held = simulation.grant(id);
        if (!simulation.within_quota(id, gpus)) return;
        auto grant = simulation.pool().place_more(simulation.job(id), held, gpus - held.gpus());
        if (!grant) return;
        const TraceJob& job = simulation.job(id);
        grant->plan = plan_for(job, *grant, simulation.cluster(), freedom());
        const double now = job.speed->rate(held, simulation.cluster());
        if (job.speed->rate(*grant, simulation.cluster()) <= 1.01 * now) return;
        if (worth_changing(simulation, id, simulation.change_delay(id, *grant)))
            simulation.change(id, std::move(*grant));
    }

    // (T - N d) / T >= 0.97, with the change in question, which takes `delay`, among the N.
    static bool worth_changing(const Simulation& simulation, int id, Time delay) {
        const JobResult& is = simulation.result(id);
        const auto time = static_cast<double>(simulation.now() - is.start);
        return time - static_cast<double>(is.paused + delay) >= 0.97 * time;
    }

    Variant variant_;
    std::map<const void*, Sensitivity> curves_;
    std::map<int, double> asked_;
    std::map<int, int> least_;
};

}  // namespace

std::unique_ptr<Policy> make_rubick() { return std::make_unique<Rubick>(Variant{true, true}); }
std::unique_ptr<Policy> make_rubick_e() { return std::make_unique<Rubick>(Variant{true, false}); }
std::unique_ptr<Policy> make_rubick_r() { return std::make_unique<Rubick>(Variant{false, true}); }
std::unique_ptr<Policy> make_rubick_n() { return std::make_unique<Rubick>(Variant{false, false}); }

}  // namespace tpx
