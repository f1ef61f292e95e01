// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/in_order.hpp"
#include "lib/cluster/policies.hpp"

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

    static Promise promise_to(const Simulation& simulation, int first) {
        Promise promise{never, simulation.soon()};
        const TraceJob& job = simulation.job(first);
        if (promise.pool.place(job, job.gpus)) promise.time = simulation.now();
        for (const auto& [time, id] : simulation.finishes()) {
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
        for (std::size_t i = first + 1; i < waiting.size() && simulation.pool().free() > 0; ++i) {
            const TraceJob& job = simulation.job(waiting[i]);
            if (job.gpus > simulation.pool().free(job.kind)) continue;
            auto grant = simulation.place(waiting[i], job.gpus);
            if (!grant) continue;
            if (simulation.now() + simulation.time_needed(waiting[i], *grant) > promise.time) {
                promise.pool.take(job, grant->parts);
                if (promise.time != never && !promise.pool.place(head, head.gpus)) {
                    promise.pool.give(job, grant->parts);
                    continue;
                }
            }
            simulation.start(waiting[i], std::move(*grant));
        }
    }
};

}  // namespace

std::unique_ptr<Policy> make_fifo_backfill() { return std::make_unique<FifoBackfill>(); }

}  // namespace tpx
