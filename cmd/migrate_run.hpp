// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/migrate.hpp"
#include "lib/exec/agreement.hpp"
#include "lib/exec/publish.hpp"
#include "lib/exec/signals.hpp"

#include <exception>
#include <filesystem>

// How the hosts carry out a migration together.
namespace tpx::cli {

/// Runs `body`, which may communicate with some of the ranks; fails on all if it failed on any.
template <class Body>
void together(const mpi::Comm& comm, Body&& body) {
    std::exception_ptr error;
    try {
        body();
    } catch (...) {
        error = std::current_exception();
    }
    mpi::agree_on(comm, error);
}

/// What this rank's host is to do: all ranks, the ranks of the host, and its part of the migration.
struct HostRun {
    const mpi::Comm& all;
    const mpi::Comm& host;
    const Team& team;
    const Migration& job;
    HostPart& part;
};

/// What was made on this host and is not in place yet.
struct Made {
    Report report;
    Exchanged exchanged;
};

/// Makes the files of the host in `folder`, all but their final names: receives what the host lacks, and writes them;
/// then checks that the files of `record` have not changed. Without a journal in `exec`, `folder` has no files yet.
/// Collective; throws an mpi::AgreedError.
Made make_files(const HostRun& run, const std::filesystem::path& folder, const ReadRecord& record,
                const ExecOptions& exec);

/// What all hosts together have done.
MigrateDone sum_of(const HostRun& run, const Made& made);

/// What a process may use. Collective.
ExecOptions limits_of(const mpi::Comm& comm, const MigrateRequest& options, const Migration& job);

/// Files that are made from now on give nobody what the files of `record` below `source`, or what is at `output`, deny.
void limit_modes(const ReadRecord& record, const std::filesystem::path& source, const std::filesystem::path& output);

/// Runs `body`; an error before the output is in place says that what is written is kept. Collective.
template <class Body>
decltype(auto) keeping(PartialDirectory& partial, Body&& body) {
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
