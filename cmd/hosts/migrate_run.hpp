// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migration.hpp"
#include "lib/exec/agreement.hpp"
#include "lib/exec/publish.hpp"
#include "lib/exec/stop_signals.hpp"

#include <exception>
#include <filesystem>

// Steps of a migration that all hosts execute together.
namespace tpx::cli {

/// Runs `body`, which may communicate with some of the ranks; fails on all ranks if it fails on any.
template <class Body>
void run_together(const mpi::Comm& comm, Body&& body) {
    std::exception_ptr error;
    try {
        body();
    } catch (...) {
        error = std::current_exception();
    }
    mpi::agree_on(comm, error);
}

/// A migration as this rank executes it: all ranks, the ranks of its host, and the part of this host.
struct HostRun {
    const mpi::Comm& all;
    const mpi::Comm& host;
    const Team& team;
    const Migration& job;
    HostPart& part;
};

/// What make_files() did on this host; the files do not have their final names yet.
struct MadeFiles {
    ExecReport report;
    ExchangeResult exchanged;
};

/// Receives what the host lacks and writes its files in `folder`, without giving them their final names; then checks
/// that the files of `record` have not changed. If `exec` has no journal, `folder` must not contain files. Throws an
/// mpi::AgreedError. Collective.
MadeFiles make_files(const HostRun& run, const std::filesystem::path& folder, const ReadRecord& record,
                     const ExecOptions& exec);

/// What all hosts did, summed. Collective.
MigrateResult sum_results(const HostRun& run, const MadeFiles& made);

/// Adds to `done` what another migration of the same hosts did, except its time.
void add(MigrateResult& done, const MigrateResult& other);

/// Per-process resource limits. Collective.
ExecOptions limits_of(const mpi::Comm& comm, const MigrateRequest& options, const Migration& job);

/// Restricts the permissions of files that this process creates from now on to those that the files of `record` below
/// `source` and an existing `output` grant.
void limit_modes(const ReadRecord& record, const std::filesystem::path& source, const std::filesystem::path& output);

/// Runs `body`. If it fails, keeps the files that are written. An error before the output is in place gets a hint about
/// them. Collective.
template <class Body>
decltype(auto) keep_on_failure(PartialDirectory& partial, Body&& body) {
    try {
        return body();
    } catch (const mpi::AgreedError& error) {
        partial.keep();
        if (error.exit() == exit_after_commit) throw;
        throw mpi::AgreedError{Error{error.exit(),
                                     "{}; what is written is kept; run the same command to continue, or add --restart "
                                     "to start over",
                                     error.what()}};
    } catch (const Error&) {
        partial.keep();
        throw;
    }
}

}  // namespace tpx::cli
