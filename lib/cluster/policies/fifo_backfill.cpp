// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/in_order.hpp"
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
        const std::vector<int> waiting = simulation.waiting();
        const std::size_t next = start_in_order(simulation, waiting);
        if (next + 1 < waiting.size() && simulation.pool().free() > 0) fill(simulation, waiting, next);
    }

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
        Promise promise{never, simulation.soon()};
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

    static void fill(Simulation& simulation, const std::vector<int>& waiting, std::size_t first) {
        const TraceJob& head = simulation.job(waiting[first]);
        Promise promise = promise_to(simulation, waiting[first]);
        std::vector<Look> looks;
        for (std::size_t i = first + 1; i < waiting.size() && simulation.pool().free() > 0; ++i) {
            const TraceJob& job = simulation.job(waiting[i]);
            if (job.gpus > simulation.pool().free(job.kind)) continue;
            Look own, *look = is_plain(job) ? &look_for(looks, job) : &own;
            if (!look->grant) {
                if (look->no_room) continue;
                look->grant = simulation.place(waiting[i], job.gpus);
                look->no_room = !look->grant;
                if (look->no_room) continue;
            }
            if (simulation.now() + simulation.time_needed(waiting[i], *look->grant) > promise.time) {
                if (look->delays_first) continue;
                promise.pool.take(job, look->grant->parts);
                if (promise.time != never && !promise.pool.place(head, head.gpus)) {
                    promise.pool.give(job, look->grant->parts);
                    look->delays_first = true;
                    continue;
                }
            }
            simulation.start(waiting[i], std::move(*look->grant));
            looks.clear();
        }
    }

    // What was found out about jobs that ask for the same, until one is started.
    struct Look {
        int gpus = 0, kind = any;
        std::optional<Grant> grant{};
        bool no_room = false;       // for it now
        bool delays_first = false;  // if it still runs when the first job is to start
    };

    // Whether nothing but GPUs counts for a job.
    static bool is_plain(const TraceJob& job) {
        return job.cpus == 0 && job.memory == 0 && job.kinds.empty() && (job.tenant == any || !job.guaranteed);
    }

    static Look& look_for(std::vector<Look>& looks, const TraceJob& job) {
        for (Look& look : looks)
            if (look.gpus == job.gpus && look.kind == job.kind) return look;
        return looks.emplace_back(Look{job.gpus, job.kind});
    }
};

}  // namespace

std::unique_ptr<Policy> make_fifo_backfill() { return std::make_unique<FifoBackfill>(); }

}  // namespace tpx
