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
        std::size_t first = 0;  // of those that do not fit
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

    // What was found out about a group of jobs, until one is started.
    struct Look {
        std::optional<Grant> grant{};
        bool no_room = false;       // for any of them now
        bool delays_first = false;  // if it still runs when the first job is to start
    };

    // The first job after `id` that is not known to be no candidate, and its group.
    std::pair<int, std::size_t> next_candidate(const Simulation& simulation, int id, Time promised) {
        std::pair<int, std::size_t> first{any, 0};
        const std::vector<BackfillQueue::Group>& groups = queue_.groups();
        for (std::size_t i = 0; i < groups.size(); ++i) {
            if (looks_[i].no_room || groups[i].gpus > simulation.pool().free(groups[i].kind)) continue;
            const Time most = looks_[i].delays_first ? promised - simulation.now() : never - 1;
            const int next = groups[i].next(id, most);
            if (next != any && (first.first == any || next < first.first)) first = {next, i};
        }
        return first;
    }

    // Whether a job leaves the first job what it was promised; then what it takes for longer is taken from that.
    static bool leaves_promise(const Simulation& simulation, int id, const Look& look, const TraceJob& head,
                               Promise& promise) {
        if (simulation.now() + simulation.time_needed(id, *look.grant) <= promise.time) return true;
        if (look.delays_first) return false;
        promise.pool.take(simulation.job(id), look.grant->parts);
        if (promise.time == never || promise.pool.place(head, head.gpus)) return true;
        promise.pool.give(simulation.job(id), look.grant->parts);
        return false;
    }

    void fill(Simulation& simulation, int first) {
        const TraceJob& head = simulation.job(first);
        Promise promise = promise_to(simulation, first);
        looks_.assign(queue_.groups().size(), {});
        for (int last = first; simulation.pool().free() > 0;) {
            const auto [id, number] = next_candidate(simulation, last, promise.time);
            if (id == any) break;
            last = id;
            const BackfillQueue::Group& group = queue_.groups()[number];
            const TraceJob& job = simulation.job(id);
            if (job.gpus > simulation.pool().free(job.kind)) continue;
            Look own, &look = group.alike ? looks_[number] : own;
            if (!look.grant) look.grant = simulation.place(id, job.gpus);
            look.no_room = !look.grant;
            if (look.no_room) continue;
            if (!leaves_promise(simulation, id, look, head, promise)) {
                look.delays_first = true;
                continue;
            }
            queue_.erase(simulation, id);
            simulation.start(id, std::move(*look.grant));
            looks_.assign(queue_.groups().size(), {});
        }
    }

    BackfillQueue queue_;
    std::vector<Look> looks_;  // of its groups
};

}  // namespace

std::unique_ptr<Policy> make_fifo_backfill() { return std::make_unique<FifoBackfill>(); }

}  // namespace tpx
