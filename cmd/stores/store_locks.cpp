// SPDX-License-Identifier: Apache-2.0
#include "cmd/stores/store_locks.hpp"

#include "cmd/stores/managed_request.hpp"
#include "cmd/stores/store_switch.hpp"
#include "lib/core/error.hpp"
#include "lib/core/host_name.hpp"
#include "lib/core/path.hpp"
#include "lib/exec/agreement.hpp"

#include <sys/stat.h>

#include <chrono>
#include <map>
#include <span>
#include <thread>
#include <utility>

namespace tpx::cli {
namespace {

/// Throws an mpi::AgreedError if no host has a store, unless an import creates the stores: the path may be wrong, and
/// no folders must be created there. Collective.
void require_stores(const mpi::Comm& comm, const NodeStore& store, const MigrateRequest& options) {
    std::uint64_t stores = 0;
    mpi::all_or_none(comm, [&] {
        if (path_exists(store.folder()) && !path_is_directory(store.folder()))
            throw failure("{}: is not a folder (--store)", store.folder().string());
        stores = path_is_directory(store.folder());
    });
    mpi::all_sum(comm, std::span{&stores, 1});
    if (stores > 0 || !options.import_from.empty()) return;
    if (options.plan.lost.empty())
        throw mpi::AgreedError{failure("{}: no host has a store; use --import CKPT first", options.store)};
    throw mpi::AgreedError{Error{Exit::no, "{}: no remaining host has a store; use --import CKPT", options.store}};
}

/// Throws an mpi::AgreedError if two hosts have the same folder, for example because of links. Collective.
void require_different_stores(const mpi::Comm& comm, const Team& team, const NodeStore& store,
                              const std::string& pattern) {
    std::string mine;  // the host and, if it has a store, the machine and the folder
    mpi::all_or_none(comm, [&] {
        struct stat status {};
        mine = std::to_string(team.host);
        if (team.is_first(comm.rank()) && ::stat(store.folder().c_str(), &status) == 0)
            mine += fmt::format(" {} {} {}", host_name(), status.st_dev, status.st_ino);
    });
    std::map<std::string, std::size_t> seen;
    for (const std::string& each : mpi::all_gather(comm, mine)) {
        const std::size_t space = each.find(' '), number = std::stoull(each);
        if (space == each.npos) continue;
        const auto [first, is_new] = seen.emplace(each.substr(space), number);
        if (!is_new)
            throw mpi::AgreedError{
                failure("{}: hosts '{}' and '{}' have the same folder; each host needs its own store", pattern,
                        team.hosts[first->second].name, team.hosts[number].name)};
    }
}

/// Whether a run neither changes the stores nor waits for runs that do: an export, a run that prints the current state,
/// or a dry run.
bool only_looks(const MigrateRequest& options) { return only_reads(options) || options.dry_run; }

/// Locks the store of this host, and creates it for a run that changes it. A run that only looks gets locks on all
/// hosts, or on none if another run has locked a store: then no switch is interrupted. Collective.
StoreLock lock_store(const mpi::Comm& comm, const mpi::Comm& host, const NodeStore& store,
                     const MigrateRequest& options) {
    StoreLock lock;
    std::uint64_t locked_by_others = 0;
    // All hosts find missing folders before any host creates its store: stores of emulated hosts share parent folders.
    mpi::all_or_none(comm, [&] {
        if (host.rank() == 0 && !only_looks(options)) lock.created = CreatedStore{store.folder()};
    });
    mpi::all_or_none(comm, [&] {
        if (host.rank() != 0) return;
        if (!only_looks(options)) {
            lock.lock = store.create_and_lock(lock.created);
        } else if (path_is_directory(store.folder())) {
            lock.lock = store.try_to_lock();
            locked_by_others = lock.lock ? 0 : 1;
        }
    });
    mpi::all_sum(comm, std::span{&locked_by_others, 1});
    if (locked_by_others > 0) return {};
    lock.is_held = true;
    return lock;
}

/// Keeps other runs from removing the current state of this host until the result is destroyed. Throws an
/// mpi::AgreedError if the state is gone. Collective.
Fd use_current(const mpi::Comm& comm, const mpi::Comm& host, const Team& team, const NodeStore& store,
               const StoreSurvey& survey) {
    Fd used;
    mpi::all_or_none(comm, [&] {
        if (host.rank() == 0 && survey.has_current[team.host]) used = store.use_state(state_name(*survey.manifest));
    });
    return used;
}

/// Runs `look`, which surveys the stores while another run may change them. Repeats it if the stores do not match: this
/// may be temporary, and advice such as --rejoin would be wrong. Collective.
template <class Look>
void look_beside_others(const std::string& pattern, Output& out, Look&& look) {
    constexpr int tries = 10;
    for (int k = 1;; ++k) {
        try {
            look();
            return out.note("{}: another tpx migrate is using the stores", pattern);
        } catch (const mpi::AgreedError&) {
            if (k == tries)
                throw mpi::AgreedError{failure("{}: another tpx migrate is using the stores; try again", pattern)};
        }
        std::this_thread::sleep_for(std::chrono::milliseconds{100});
    }
}

}  // namespace

OpenStores open_stores(const mpi::Comm& comm, const mpi::Comm& host, const Team& team, const NodeStore& store,
                       const MigrateRequest& options, const std::vector<std::string>& outdated, Output& out) {
    require_stores(comm, store, options);
    require_different_stores(comm, team, store, options.store);
    OpenStores stores{.lock = lock_store(comm, host, store, options), .used = {}, .survey = {}};
    const auto look = [&] {
        stores.survey = survey_stores(comm, team, store, outdated);
        if (only_reads(options) && !options.dry_run) stores.used = use_current(comm, host, team, store, stores.survey);
    };
    if (!stores.lock.is_held) {
        look_beside_others(options.store, out, look);
    } else {
        if (options.dry_run)
            require_no_interrupted_switch(comm, team, store, outdated, options.store);
        else if (const std::string note = recover_switch(comm, team, store, outdated); !note.empty())
            out.note("{}", note);
        look();
    }
    if (only_looks(options)) stores.lock = {};
    return stores;
}

}  // namespace tpx::cli
