// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/backfill_queue.hpp"
#include "lib/cluster/policies.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace tpx {
namespace {

// EASY backfilling: the first job that does not fit is promised the time at which enough of the running jobs will have
// finished; later jobs may go before it if they are done by then, or need none of the GPUs that it will get.
class FifoBackfill final : public Policy {
public:
    void schedule(Simulation& simulation) override {
        queue_.update(simulation);
        const std::vector<int>& waiting = simulation.waiting();
        std::size_t first = 0;  // the first job that does not fit
        while (first < waiting.size()) {
            const int id = waiting[first], gpus = simulation.job(id).gpus;
            if (!simulation.within_quota(id, gpus)) {
                ++first;
                continue;
            }
            auto grant = simulation.place(id, gpus);
            if (!grant) break;
            queue_.erase(simulation, id);
            simulation.start(id, std::move(*grant));
        }
        if (first + 1 < waiting.size() && simulation.pool().free() > 0) fill(simulation, waiting[first]);
    }

    void forget() override { queue_ = {}; }

private:
    // When the first job can start, and what is free then.
    struct Promise {
        Time time;
        GpuPool pool;
    };

    using End = std::pair<Time, int>;

    // When jobs that hold GPUs and do not train yet will finish, sorted.
    static std::vector<End> ends_of_starting(const Simulation& simulation) {
        std::vector<End> ends;
        if (simulation.changes() == 0) return ends;
        for (const int id : simulation.running())
            if (simulation.finish_of(id) == never) ends.emplace_back(simulation.expected_finish(id), id);
        std::ranges::sort(ends);
        return ends;
    }

    static Promise promise_to(const Simulation& simulation, int first) {
        Promise promise{never, simulation.pool_after_releases()};
        const TraceJob& job = simulation.job(first);
        if (promise.pool.place(job, job.gpus)) promise.time = simulation.now();
        const std::vector<End> starting = ends_of_starting(simulation);
        auto begun = simulation.finishes().begin(), last = simulation.finishes().end();
        for (auto next = starting.begin(); begun != last || next != starting.end();) {
            const bool is_begun = next == starting.end() || (begun != last && *begun < *next);
            const auto [time, id] = is_begun ? *begun++ : *next++;
            if (time > promise.time) break;
            promise.pool.give(simulation.needs(id), simulation.grant(id).parts);
            if (promise.time != never || promise.pool.free(job.kind) < job.gpus) continue;
            if (promise.pool.place(job, job.gpus)) promise.time = time;
        }
        return promise;
    }

    // What is known about the jobs of a group until the next start.
    struct Trial {
        std::optional<Grant> grant{};
        bool no_room = false;       // no job of the group fits now
        bool delays_first = false;  // a job that still runs at the promised time would
    };

    // The first job after `id` that is not ruled out by its group's trial, and that group; `any` if there is none.
    std::pair<int, std::size_t> next_candidate(const Simulation& simulation, int id, Time promised) {
        std::pair<int, std::size_t> first{any, 0};
        const std::vector<BackfillQueue::Group>& groups = queue_.groups();
        for (std::size_t i = 0; i < groups.size(); ++i) {
            if (trials_[i].no_room || groups[i].gpus > simulation.pool().free(groups[i].kind)) continue;
            const Time most = trials_[i].delays_first ? promised - simulation.now() : never - 1;
            const int next = groups[i].next(id, most);
            if (next != any && (first.first == any || next < first.first)) first = {next, i};
        }
        return first;
    }

    // Whether a job can start without a delay of the first job. If it still runs at the promised time, its GPUs are no
    // longer part of the promised pool.
    static bool leaves_promise(const Simulation& simulation, int id, const Trial& trial, const TraceJob& head,
                               Promise& promise) {
        if (simulation.now() + simulation.time_needed(id, *trial.grant) <= promise.time) return true;
        if (trial.delays_first) return false;
        promise.pool.take(simulation.job(id), trial.grant->parts);
        if (promise.time == never || promise.pool.place(head, head.gpus)) return true;
        promise.pool.give(simulation.job(id), trial.grant->parts);
        return false;
    }

    void fill(Simulation& simulation, int first) {
        const TraceJob& head = simulation.job(first);
        Promise promise = promise_to(simulation, first);
        trials_.assign(queue_.groups().size(), {});
        for (int last = first; simulation.pool().free() > 0;) {
            const auto [id, number] = next_candidate(simulation, last, promise.time);
            if (id == any) break;
            last = id;
            const BackfillQueue::Group& group = queue_.groups()[number];
            const TraceJob& job = simulation.job(id);
            if (job.gpus > simulation.pool().free(job.kind)) continue;
            Trial own, &trial = group.alike ? trials_[number] : own;
            if (!trial.grant) trial.grant = simulation.place(id, job.gpus);
            trial.no_room = !trial.grant;
            if (trial.no_room) continue;
            if (!leaves_promise(simulation, id, trial, head, promise)) {
                trial.delays_first = true;
                continue;
            }
            queue_.erase(simulation, id);
            simulation.start(id, std::move(*trial.grant));
            trials_.assign(queue_.groups().size(), {});
        }
    }

    BackfillQueue queue_;
    std::vector<Trial> trials_;  // by group of queue_
};

}  // namespace

std::unique_ptr<Policy> make_fifo_backfill() { return std::make_unique<FifoBackfill>(); }

}  // namespace tpx
