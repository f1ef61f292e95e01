// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/grant_draft.hpp"
#include "lib/cluster/growth.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/policies/rubick_rates.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace tpx {
namespace {

// What a variant may do.
struct Variant {
    bool plans;      // choose execution plans
    bool resources;  // choose numbers of GPUs
};

Freedom freedom_of(Variant variant) {
    if (variant.plans) return Freedom::plans;
    return variant.resources ? Freedom::resources : Freedom::none;
}

// Zhang et al., "Rubick" (MLSys 2025), on GPUs. A guaranteed job needs the fewest GPUs with which its best plan is as
// fast as what it asked for; it is admitted, first come first served, with as many, which are taken from the jobs that
// lose least if they are not free. Then the free GPUs go to the jobs that gain most from them, up to the limits of each
// job: no job that may be changed could gain from a GPU that is left free. A running job is changed for its own good
// only while its changes cost less than 3 % of its time.
class Rubick final : public Policy, private RubickRates {
public:
    explicit Rubick(Variant variant) : RubickRates{freedom_of(variant), variant.resources}, variant_{variant} {}

    void schedule(Simulation& simulation) override {
        GrantDraft draft{simulation};
        spare_.reset();
        wake_ = never;
        for (const bool guaranteed : {true, false})
            for (const int id : simulation.waiting())
                if (simulation.job(id).guaranteed == guaranteed) admit(draft, id);
        if (variant_.resources && draft.pool().free() > 0) grow(draft);
        carry_out(simulation, draft);
        if (variant_.plans && std::exchange(replan_, false)) choose_plans(simulation);
        if (wake_ != never) simulation.wake(wake_);
    }

    void forget() override {
        forget_rates();
        replan_ = true;
    }

    bool resizes() const override { return variant_.resources; }

    Freedom freedom() const override { return freedom_of(variant_); }

private:
    // Lets a waiting job in if it fits, or fits once others have given up what they do not need.
    void admit(GrantDraft& draft, int id) {
        const Simulation& simulation = draft.simulation();
        const Facts is = facts(simulation, id);
        const int free = draft.pool().free();
        if (free < is.start && free + spare(simulation) < is.start) return;  // it does not fit either
        if (is.start > draft.most(id) || place(draft, id)) return;
        if (draft.pool().free() + spare(simulation) < is.start) return;
        GrantDraft trial = draft;
        while (take_from_others(trial, id)) {
            if (!place(trial, id)) continue;
            draft = std::move(trial);
            return;
        }
    }

    bool place(GrantDraft& draft, int id) {
        const Simulation& simulation = draft.simulation();
        auto grant = draft.pool().place(simulation.needs(id), facts(simulation, id).start);
        if (!grant || !(rate(simulation, id, *grant) > 0)) return false;
        draft.set(id, std::move(*grant));
        return true;
    }

    // GPUs that running jobs have and do not need, at most.
    int spare(const Simulation& simulation) {
        if (spare_) return *spare_;
        spare_ = 0;
        for (const int id : simulation.running()) {
            const int need = facts(simulation, id).need;
            if (variant_.resources || need == 0) *spare_ += simulation.grant(id).gpus() - need;
        }
        return *spare_;
    }

    // One way to take GPUs from a running job: what each of them was worth to it, and how many it keeps.
    struct Loss {
        double slope = HUGE_VAL;
        int id = any;
        int left = 0;
    };

    // Takes GPUs, for `id`, from the job to which they are worth least. A best-effort job takes them only from jobs to
    // which they are worth less than to itself, and stops none.
    bool take_from_others(GrantDraft& draft, int id) {
        const Simulation& simulation = draft.simulation();
        const Facts is = facts(simulation, id);
        const bool guaranteed = simulation.job(id).guaranteed;
        Loss cheapest;
        if (!guaranteed) cheapest.slope = curve(simulation, id).rate(is.start) / is.asked / is.start;
        for (const int other : simulation.running()) {
            if (!draft.runs(other) || simulation.resizing(other)) continue;
            const Facts has = facts(simulation, other);
            find_loss(draft, other, guaranteed ? has.need : std::max(has.need, has.start), cheapest);
        }
        if (cheapest.id == any) return false;
        draft.set(cheapest.id, cheapest.left > 0 ? GpuPool::part_of(draft.grant(cheapest.id), cheapest.left) : Grant{});
        return true;
    }

    // Replaces `cheapest` where a loss of `id` that leaves it `floor` GPUs is cheaper.
    void find_loss(const GrantDraft& draft, int id, int floor, Loss& cheapest) {
        const Simulation& simulation = draft.simulation();
        const int has = draft.grant(id).gpus(), least = simulation.job(id).least;
        if (has <= floor) return;
        const Sensitivity& is = curve(simulation, id);
        const double asked = facts(simulation, id).asked;
        for (int left = floor; left < has; ++left) {
            const bool possible = left == 0 || (variant_.resources && left >= least && is.rate(left) > 0);
            const double slope = (is.rate(has) - is.rate(left)) / asked / (has - left);
            if (!possible || slope >= cheapest.slope) continue;
            if (left == 0 || rate(simulation, id, GpuPool::part_of(draft.grant(id), left)) > 0)
                cheapest = {slope, id, left};
        }
    }

    // Gives free GPUs to the jobs that gain most.
    void grow(GrantDraft& draft) {
        const Simulation& simulation = draft.simulation();
        std::vector<int> open, others;  // jobs that may grow now, and those that must wait
        for (const auto& [id, grant] : draft.changed())
            if (!grant.parts.empty() && !(simulation.background() && is_running(simulation, id))) open.push_back(id);
        for (const int id : simulation.running()) {
            if (draft.changed().contains(id) || simulation.changing(id)) continue;
            if (draft.most(id) <= draft.grant(id).gpus()) continue;
            (worth_changing(simulation, id, simulation.change_delay()) ? open : others).push_back(id);
        }
        spread(draft, open);
        open.insert(open.end(), others.begin(), others.end());
        use_the_rest(draft, std::move(open));
    }

    static bool is_running(const Simulation& simulation, int id) { return !simulation.grant(id).parts.empty(); }

    // The choice with the largest sum of gains, as if every job could be packed.
    void spread(GrantDraft& draft, const std::vector<int>& open) {
        const Simulation& simulation = draft.simulation();
        const int free = draft.pool().free();
        std::vector<std::vector<Growth>> options;
        for (const int id : open) {
            const int has = draft.grant(id).gpus();
            const double now = rate(simulation, id, draft.grant(id));
            std::vector<Growth>& ways = options.emplace_back();
            for (const int gpus : curve(simulation, id).useful(has + 1, std::min(draft.most(id), has + free), now))
                ways.push_back({gpus - has, (curve(simulation, id).rate(gpus) - now) / facts(simulation, id).asked});
        }
        const std::vector<int> chosen = best_growths(options, free);
        std::vector<std::pair<int, int>> wanted;  // GPUs more and job, most first: large ones find whole hosts
        for (std::size_t i = 0; i < open.size(); ++i)
            if (chosen[i] >= 0) wanted.emplace_back(options[i][static_cast<std::size_t>(chosen[i])].more, open[i]);
        std::ranges::stable_sort(wanted, std::greater{}, &std::pair<int, int>::first);
        for (const auto& [more, id] : wanted) enlarge(draft, id, draft.grant(id).gpus() + more);
    }

    // Where jobs cannot be packed, or are faster on other hosts than packed: the best single step, until there is none.
    void use_the_rest(GrantDraft& draft, std::vector<int> open) {
        const Simulation& simulation = draft.simulation();
        while (draft.pool().free() > 0) {
            int best = any, count = 0;
            double most = 0;
            for (const int id : open) {
                const Grant& held = draft.grant(id);
                const double now = rate(simulation, id, held), asked = facts(simulation, id).asked;
                const int limit = std::min(draft.most(id), held.gpus() + draft.pool().free());
                for (int gpus = held.gpus() + 1; gpus <= limit; ++gpus) {
                    const auto grant = draft.pool().place_more(simulation.needs(id), held, gpus - held.gpus());
                    if (!grant) break;
                    const double then = rate(simulation, id, *grant);
                    const double slope = (then - now) / asked / (gpus - held.gpus());
                    if (then > min_gain * now && slope > most) best = id, count = gpus, most = slope;
                }
            }
            if (best == any) return;
            if (!enlarge(draft, best, count)) std::erase(open, best);
        }
    }

    // Gives a job `gpus` GPUs if that makes it faster, and is worth the change.
    bool enlarge(GrantDraft& draft, int id, int gpus) {
        const Simulation& simulation = draft.simulation();
        const Grant held = draft.grant(id);
        if (gpus > draft.most(id)) return false;
        const auto grant = enlarged(draft, id, gpus);
        if (!grant || rate(simulation, id, *grant) <= min_gain * rate(simulation, id, held)) return false;
        if (is_running(simulation, id) && !draft.changed().contains(id) &&
            !worth_changing(simulation, id, simulation.change_delay(id, *grant)))
            return false;
        draft.set(id, *grant);
        return true;
    }

    // `gpus` GPUs beside those that the job has, or anywhere if it does not run yet and is faster so.
    std::optional<Grant> enlarged(const GrantDraft& draft, int id, int gpus) {
        const Simulation& simulation = draft.simulation();
        const GpuRequirements needs = simulation.needs(id);
        const Grant& held = draft.grant(id);
        const auto beside = draft.pool().place_more(needs, held, gpus - held.gpus());
        if (is_running(simulation, id)) return beside;
        GpuPool pool = draft.pool();
        pool.give(needs, held.parts);
        const auto anew = pool.place(needs, gpus);
        return beside && anew && rate(simulation, id, *beside) >= rate(simulation, id, *anew) ? beside : anew;
    }

    // (T - N d) / T >= 0.97, with the change in question, which takes `delay`, among the N. Where it is not, asks to be
    // called when it will be.
    bool worth_changing(const Simulation& simulation, int id, Time delay) {
        const JobResult& is = simulation.result(id);
        const Time cost = 100 * (is.paused + delay);
        if (3 * (simulation.now() - is.start) >= cost) return true;
        wake_ = std::min(wake_, is.start + (cost + 2) / 3);
        return false;
    }

    // After rates have changed, running jobs may be faster under other plans on the GPUs that they have.
    void choose_plans(Simulation& simulation) {
        const std::vector<int> running = simulation.running();
        for (const int id : running) {
            if (simulation.changing(id)) {
                replan_ = true;  // there is a next call when it is ready
                continue;
            }
            const TraceJob& job = simulation.job(id);
            Grant with = simulation.grant(id);
            const double now = job.speed->rate(with, simulation.cluster());
            with.plan = plan_for(job, with, simulation.cluster(), freedom());
            if (job.speed->rate(with, simulation.cluster()) <= min_gain * now) continue;
            if (worth_changing(simulation, id, simulation.change_delay(id, with)))
                simulation.change(id, with);
            else
                replan_ = true;
        }
    }

    // First those who lose GPUs; who is to get some that are not back yet is decided again when they are.
    void carry_out(Simulation& simulation, const GrantDraft& draft) {
        for (const auto& [id, grant] : draft.changed()) {
            const Grant now = simulation.grant(id);
            const std::vector<GpuShare> fewer = difference_of(now.parts, grant.parts);
            if (fewer.empty()) continue;
            if (grant.parts.empty()) {
                simulation.stop(id);
                continue;
            }
            const bool at_once = simulation.pool().fits(simulation.needs(id), difference_of(grant.parts, now.parts));
            change(simulation, id, at_once ? grant.parts : difference_of(now.parts, fewer));
        }
        for (const auto& [id, grant] : draft.changed()) {
            const std::vector<GpuShare> more = difference_of(grant.parts, simulation.grant(id).parts);
            if (more.empty() || (is_running(simulation, id) && simulation.changing(id))) continue;
            if (simulation.pool().fits(simulation.needs(id), more) && simulation.within_quota(id, grant.gpus()))
                change(simulation, id, grant.parts);
        }
    }

    void change(Simulation& simulation, int id, std::vector<GpuShare> parts) {
        Grant grant{std::move(parts)};
        grant.plan = plan_for(simulation.job(id), grant, simulation.cluster(), freedom());
        is_running(simulation, id) ? simulation.change(id, std::move(grant)) : simulation.start(id, std::move(grant));
    }

    Variant variant_;
    std::optional<int> spare_;  // in the present decision
    bool replan_ = false;       // rates have changed since plans were chosen
    Time wake_ = never;
};

}  // namespace

std::unique_ptr<Policy> make_rubick() { return std::make_unique<Rubick>(Variant{true, true}); }
std::unique_ptr<Policy> make_rubick_e() { return std::make_unique<Rubick>(Variant{true, false}); }
std::unique_ptr<Policy> make_rubick_r() { return std::make_unique<Rubick>(Variant{false, true}); }
std::unique_ptr<Policy> make_rubick_n() { return std::make_unique<Rubick>(Variant{false, false}); }

}  // namespace tpx
