// SPDX-License-Identifier: Apache-2.0
#include "cmd/store_locks.hpp"

#include "cmd/managed_request.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/exec/agreement.hpp"

#include <span>
#include <utility>

namespace tpx::cli {
namespace {

/// Throws an mpi::AgreedError if no host has a store, unless an import creates them: then the path may be wrong, and no
/// folders are created there. Collective.
void require_stores(const mpi::Comm& comm, const NodeStore& store, const MigrateRequest& options) {
    std::uint64_t stores = 0;
    mpi::all_or_none(comm, [&] { stores = path_is_directory(store.folder()); });
    mpi::all_sum(comm, std::span{&stores, 1});
    if (stores > 0 || !options.import_from.empty()) return;
    if (options.plan.lost.empty())
        throw mpi::AgreedError{failure("{}: no host has a store; use --import CKPT first", options.store)};
    throw mpi::AgreedError{Error{Exit::no, "{}: no remaining host has a store; use --import CKPT", options.store}};
}

}  // namespace

bool only_reads(const MigrateRequest& options) {
    if (!options.import_from.empty() || options.prune || !options.data_store.empty()) return false;
    return !options.export_to.empty() || !asks_for_change(options);
}

StoreLock lock_store(const mpi::Comm& comm, const mpi::Comm& host, const NodeStore& store,
                     const MigrateRequest& options) {
    require_stores(comm, store, options);
    Fd lock;
    std::uint64_t locked_by_others = 0;
    mpi::all_or_none(comm, [&] {
        if (host.rank() != 0) return;
        if (!only_reads(options)) {
            lock = store.create_and_lock();
        } else if (path_is_directory(store.folder())) {
            lock = store.try_to_lock();
            locked_by_others = lock ? 0 : 1;
        }
    });
    mpi::all_sum(comm, std::span{&locked_by_others, 1});
    if (locked_by_others > 0) return {};
    return {true, std::move(lock)};
}

Fd use_current(const Managed& run) {
    Fd used;
    mpi::all_or_none(run.comm, [&] {
        if (run.host.rank() == 0 && run.survey.has_current[run.team.host])
            used = run.store.use_state(state_name(*run.survey.manifest));
    });
    return used;
}

}  // namespace tpx::cli
