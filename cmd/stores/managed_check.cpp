// SPDX-License-Identifier: Apache-2.0
#include "cmd/stores/managed_check.hpp"

#include "cmd/jobs/run_on_ranks.hpp"
#include "lib/core/error.hpp"

namespace tpx::cli {

int threads_of_check(const ManagedRun& run) {
    int threads = 1;
    mpi::all_or_none(run.comm, [&] { threads = threads_of(run.comm, run.options.limits); });
    return threads;
}

StoreCheck check_current(const ManagedRun& run) {
    return check_state(run.comm, run.host, run.team, run.store, run.survey, threads_of_check(run), run.rate_limiter,
                       run.options.dry_run ? CheckFiles::by_size : CheckFiles::completely, run.signal());
}

StoreCheck check_sizes(const ManagedRun& run) {
    return check_state(run.comm, run.host, run.team, run.store, run.survey, 1, nullptr, CheckFiles::by_size);
}

void finish_check(const ManagedRun& run) {
    if (run.check == nullptr) return;
    if (const StoreCheck* damage = run.check->finish(run.comm, run.signal())) throw DamagedState{*damage};
}

void finish_check_or_discard(const ManagedRun& run, const mpi::Comm& owners, PartialDirectory& partial) {
    try {
        finish_check(run);
    } catch (const DamagedState&) {
        mpi::all_or_none(run.comm, [&] {
            const std::string fault = owners.rank() == 0 ? partial.remove() : "";
            if (!fault.empty()) throw failure("{}", fault);
        });
        throw;
    }
}

}  // namespace tpx::cli
